//! What the programs and the tests of this package share.
