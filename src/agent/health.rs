//! How fit the host is for a new session: a score of 0 to 100 from a few
//! things that were looked at; pure.
//!
//! 100, less what is wrong. Where nobody can log on it is 0: RDP is not
//! answered, or no session manager runs. Less 60 (below the broker's default
//! `min_health_score`) where the profiles cannot be reached, or hardly any
//! memory (5 %) or disk (1 %) is left; less 30 where little is (10 %, 5 %).
//! Load is not counted: the broker weighs that itself.

use super::figures::Space;
use super::wire::{Check, Figures, Health};

/// What was looked at.
#[derive(Debug, Clone)]
pub(super) struct Findings<'a> {
    /// What came of asking the RDP port.
    pub(super) listener: &'a Result<(), String>,
    /// A session manager runs.
    pub(super) managed: bool,
    /// The file system of the profiles, where it answers.
    pub(super) profiles: Option<Space>,
    pub(super) figures: &'a Figures,
}

const NO_LOGON: u8 = 100;
const UNUSABLE: u8 = 60;
const SHORT: u8 = 30;

/// Weighs what was found.
pub(super) fn health(findings: &Findings<'_>) -> Health {
    let figures = findings.figures;
    let profiles = findings.profiles.is_some();
    let listener = match findings.listener {
        Ok(()) => (0, "answers".to_owned()),
        Err(error) => (NO_LOGON, error.clone()),
    };
    let manager = if findings.managed {
        (0, "runs".to_owned())
    } else {
        (NO_LOGON, "xrdp-sesman does not run".to_owned())
    };
    let store = if profiles {
        (0, "reached".to_owned())
    } else {
        (UNUSABLE, "the profile store does not answer".to_owned())
    };
    let memory = left(figures.memory_available, figures.memory_total, (5, 10));
    let disk = left(figures.disk_free, figures.disk_total, (1, 5));
    let looked_at = [
        ("rdp_listener", listener),
        ("session_manager", manager),
        ("profile_store", store),
        ("memory", memory),
        ("disk", disk),
    ];
    let mut score = 100_u8;
    let mut checks = Vec::with_capacity(looked_at.len());
    for (name, (less, message)) in looked_at {
        score = score.saturating_sub(less);
        checks.push(Check {
            name,
            ok: less == 0,
            message,
        });
    }
    Health {
        score,
        rdp_listener_ok: findings.listener.is_ok(),
        profile_store_ok: profiles,
        checks,
    }
}

/// What is left of something, and what that costs; unknown costs nothing.
fn left(left: Option<u64>, of: Option<u64>, (hardly, little): (u64, u64)) -> (u8, String) {
    let (Some(left), Some(of)) = (left, of.filter(|of| *of > 0)) else {
        return (0, "unknown".to_owned());
    };
    let percent = u128::from(left) * 100 / u128::from(of);
    let less = match percent {
        percent if percent < u128::from(hardly) => UNUSABLE,
        percent if percent < u128::from(little) => SHORT,
        _ => 0,
    };
    (less, format!("{percent} % left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: Option<Space> = Some(Space {
        total: 100,
        free: 50,
    });

    fn figures(memory: u64, disk: u64) -> Figures {
        Figures {
            memory_total: Some(1000),
            memory_available: Some(memory),
            disk_total: Some(1000),
            disk_free: Some(disk),
            ..Figures::default()
        }
    }

    fn score(
        listener: Result<(), String>,
        managed: bool,
        profiles: Option<Space>,
        figures: &Figures,
    ) -> u8 {
        health(&Findings {
            listener: &listener,
            managed,
            profiles,
            figures,
        })
        .score
    }

    #[test]
    fn each_thing_that_is_wrong_costs_what_it_should() {
        let fine = figures(500, 500);
        assert_eq!(score(Ok(()), true, PLENTY, &fine), 100);
        assert_eq!(score(Err("refused".into()), true, PLENTY, &fine), 0);
        assert_eq!(score(Ok(()), false, PLENTY, &fine), 0);
        assert_eq!(score(Ok(()), true, None, &fine), 40);
        assert_eq!(score(Ok(()), true, PLENTY, &figures(99, 500)), 70);
        assert_eq!(score(Ok(()), true, PLENTY, &figures(49, 500)), 40);
        assert_eq!(score(Ok(()), true, PLENTY, &figures(100, 49)), 70);
        assert_eq!(score(Ok(()), true, PLENTY, &figures(49, 9)), 0);
        assert_eq!(
            score(Ok(()), true, PLENTY, &Figures::default()),
            100,
            "unknown costs nothing"
        );
    }

    #[test]
    fn every_check_says_what_it_found() {
        let told = health(&Findings {
            listener: &Err("connection refused".into()),
            managed: true,
            profiles: None,
            figures: &figures(40, 500),
        });
        assert!(!told.rdp_listener_ok && !told.profile_store_ok);
        let wrong: Vec<_> = told.checks.iter().filter(|check| !check.ok).collect();
        let wrong: Vec<_> = wrong
            .iter()
            .map(|check| (check.name, check.message.as_str()))
            .collect();
        assert_eq!(
            wrong,
            [
                ("rdp_listener", "connection refused"),
                ("profile_store", "the profile store does not answer"),
                ("memory", "4 % left"),
            ]
        );
    }
}
