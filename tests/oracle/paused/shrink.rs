//! Cutting a failing program down: leave out a part, and keep what still fails.

/// Runs operations. If they fail, it leaves out as many as it can: halves first, single ones in the
/// end. Returns what is left then, and how that fails.
pub(crate) fn shrink<Op: Clone, R>(
    mut ops: Vec<Op>,
    run: impl Fn(&[Op]) -> Result<R, String>,
) -> Result<R, (Vec<Op>, String)> {
    let mut message = match run(&ops) {
        Ok(done) => return Ok(done),
        Err(message) => message,
    };
    let (mut part, mut left) = (ops.len(), 1_500);
    while part > 0 {
        let before = ops.len();
        let mut from = 0;
        while from < ops.len() && left > 0 {
            let mut fewer = ops.clone();
            fewer.drain(from..(from + part).min(ops.len()));
            left -= 1;
            match run(&fewer) {
                Err(new) => (ops, message) = (fewer, new),
                Ok(_) => from += part,
            }
        }
        if ops.len() == before {
            part /= 2;
        }
    }
    Err((ops, message))
}
