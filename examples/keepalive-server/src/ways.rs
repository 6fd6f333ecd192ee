//! The ways in which servers close idle connections. The clients go by tokio's timers in each.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// How the server finds that a connection is idle. The first line is the name in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// `timeout(IDLE, read)`
    Timeout,
    /// – with the import swapped
    #[value(alias = "changed-use")]
    TimeoutChanged,
    /// `select!` of the read and a pinned sleep
    Select,
    /// – with the import swapped
    SelectChanged,
    /// the same, `biased`, the read first
    Biased,
    /// – with the import swapped
    BiasedChanged,
    /// `select!` of the read and a fresh sleep
    Fresh,
    /// – with the import swapped
    FreshChanged,
    /// a last-seen time and a sleep
    LastSeen,
    /// – with the import swapped
    LastSeenChanged,
    /// `IdleTimeout`
    IdleTimeout,
    /// `Deadline`
    Deadline,
}

/// What users write with `sleep` and `timeout` around their reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idiom {
    Timeout,
    Select,
    Biased,
    Fresh,
}

impl Way {
    /// As `--way` takes it.
    pub(crate) fn name(self) -> String {
        self.value().get_name().to_string()
    }

    /// As the table has it.
    pub(crate) fn title(self) -> String {
        let value = self.value();
        let help = value.get_help().map(ToString::to_string);
        help.unwrap_or_default()
    }

    fn value(self) -> PossibleValue {
        self.to_possible_value().expect("no way is skipped")
    }

    /// `None` if the server need not time its reads.
    pub(crate) fn idiom(self) -> Option<Idiom> {
        match self {
            Way::Timeout | Way::TimeoutChanged => Some(Idiom::Timeout),
            Way::Select | Way::SelectChanged => Some(Idiom::Select),
            Way::Biased | Way::BiasedChanged => Some(Idiom::Biased),
            Way::Fresh | Way::FreshChanged => Some(Idiom::Fresh),
            Way::LastSeen | Way::LastSeenChanged | Way::IdleTimeout | Way::Deadline => None,
        }
    }

    /// Whether a stall closes no live connection, however busy the machine is.
    pub(crate) fn has_grace(self) -> bool {
        matches!(self, Way::IdleTimeout | Way::Deadline)
    }
}
