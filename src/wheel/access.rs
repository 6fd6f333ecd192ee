//! Looking at timers without moving them.
//!
//! Invariant: nothing here changes where a timer is linked. A key finds its timer here exactly as
//! long as [`Wheel::remove`] would find it.

use super::{Key, Wheel};

impl<T> Wheel<T> {
    /// The value of a timer, or `None` if it has fired or was removed. O(1).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, "request");
    /// assert_eq!(wheel.get(key), Some(&"request"));
    /// wheel.remove(key);
    /// assert_eq!(wheel.get(key), None);
    /// ```
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.node(key).map(|node| &node.value)
    }

    /// The value of a timer, for you to change, or `None` if it has fired or was removed. O(1).
    ///
    /// This does not change when the timer is due. [`reset`](Wheel::reset) does.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, 1);
    /// if let Some(tries) = wheel.get_mut(key) {
    ///     *tries += 1;
    /// }
    /// assert_eq!(wheel.advance(20).next(), Some((20, 2)));
    /// ```
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.node_mut(key).map(|node| &mut node.value)
    }

    /// Whether a timer is still armed: it has not fired, and nobody removed it. O(1).
    ///
    /// A timer whose due has passed stays armed until [`advance`](Wheel::advance) yields it.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, ());
    /// assert!(wheel.contains(key));
    /// assert_eq!(wheel.advance(20).count(), 1);
    /// assert!(!wheel.contains(key));
    /// ```
    #[inline]
    pub fn contains(&self, key: Key) -> bool {
        self.node(key).is_some()
    }

    /// The tick at which a timer is due, or `None` if it has fired or was removed. O(1).
    ///
    /// It is the due that you gave to [`insert`](Wheel::insert) or to the last
    /// [`reset`](Wheel::reset), even if it lies before [`now`](Wheel::now).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, ());
    /// assert_eq!(wheel.due(key), Some(20));
    /// wheel.reset(key, 300);
    /// assert_eq!(wheel.due(key), Some(300));
    /// ```
    #[inline]
    pub fn due(&self, key: Key) -> Option<u64> {
        self.node(key).map(|node| node.due)
    }

    /// Every timer that is armed: its key, its due and its value. They come in no order.
    ///
    /// The iterator looks at every place of the storage, used or not:
    /// O([`capacity`](Wheel::capacity)).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let request = wheel.insert(20, "request");
    /// wheel.insert(300, "keepalive");
    ///
    /// let later = wheel.iter().filter(|(_, due, _)| *due > 100);
    /// assert_eq!(later.map(|(_, _, value)| *value).collect::<Vec<_>>(), ["keepalive"]);
    /// assert!(wheel.iter().any(|(key, ..)| key == request));
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Key, u64, &T)> {
        // No timer has the sequence zero, so this skips none.
        self.nodes.iter().filter_map(|(index, node)| {
            let key = Key::from_parts((index as u32, node.sequence))?;
            Some((key, node.due, &node.value))
        })
    }

    /// The value of every timer. They come in no order.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|(_, node)| &mut node.value)
    }
}
