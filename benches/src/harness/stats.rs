//! Medians and quartiles. A few samples that a neighbour on the machine disturbed do not move them.

/// The median and the quartiles of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

impl Quartiles {
    /// `None` if there are no samples. Between two samples it interpolates.
    pub fn of(samples: &[f64]) -> Option<Quartiles> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)? as f64;
        let at = |part: f64| {
            let place = part * last;
            let (below, above) = (
                sorted[place.floor() as usize],
                sorted[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Quartiles {
            lower: at(0.25),
            median: at(0.5),
            upper: at(0.75),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_few_and_of_none() {
        assert_eq!(Quartiles::of(&[]), None);
        let one = Quartiles::of(&[3.0]).unwrap();
        assert_eq!((one.lower, one.median, one.upper), (3.0, 3.0, 3.0));
        let five = Quartiles::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.lower, five.median, five.upper), (2.0, 3.0, 4.0));
        assert_eq!(Quartiles::of(&[1.0, 2.0]).unwrap().median, 1.5);
    }
}
