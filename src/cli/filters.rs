//! What lists are narrowed by, one word for one thing in all of them.

use super::ask::query;

/// Which entries of a list, and how many.
#[derive(Debug, clap::Args)]
pub(super) struct Filters {
    /// Those of this user, spelled any way
    #[arg(long)]
    user: Option<String>,
    /// Those on this host
    #[arg(long, value_name = "ID")]
    host: Option<String>,
    /// Those of this farm
    #[arg(long, value_name = "ID")]
    farm: Option<String>,
    /// How many at most: 1 to 1000
    #[arg(long, value_name = "NUMBER")]
    limit: Option<String>,
    /// Those after this one, as the end of the list before named it
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
}

impl Filters {
    /// The path of the list with these filters.
    pub(super) fn on(&self, path: &str) -> String {
        let filters = [
            ("user", self.user.as_deref()),
            ("host", self.host.as_deref()),
            ("farm", self.farm.as_deref()),
            ("limit", self.limit.as_deref()),
            ("after", self.after.as_deref()),
        ];
        query(path, &filters)
    }
}
