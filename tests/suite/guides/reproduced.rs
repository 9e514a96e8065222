//! The tables of `deploy/guides/troubleshooting.md` beside the tests: no symptom that none
//! reproduces, and none that is quoted in other words than a test has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::super::faults::table::{exists, file_of};
use super::guide;

/// A symptom, by what is quoted first of it or by its code, and who reproduces it.
const REPRODUCED: &[(&str, &[&str])] = &[
    // What the page says, by code.
    (
        "0x201",
        &["capacity::a_full_host_turns_a_new_user_away_and_admits_one_who_returns"],
    ),
    (
        "0x202",
        &["capacity::a_logon_behind_one_that_stays_pending_is_refused_within_its_budget"],
    ),
    (
        "0x203",
        &["refusals::a_guacd_that_speaks_out_of_turn_is_an_upstream_error"],
    ),
    (
        "0x204",
        &["carriers::carriers_that_lead_nowhere_are_refused_and_never_forwarded"],
    ),
    (
        "0x205",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "0x300",
        &["malformed::parameters_larger_than_guacd_reads_are_refused"],
    ),
    (
        "0x207",
        &[
            "attempts::bounds::when_nothing_is_left_the_page_hears_guacds_own_code_the_hosts_and_the_decision",
        ],
    ),
    (
        "0x208",
        &["refusals::a_guacd_that_cannot_be_reached_is_unavailable"],
    ),
    (
        "0x209",
        &["attempts::bounds::a_session_taken_over_by_another_connection_is_not_fought_for"],
    ),
    (
        "0x20B",
        &["ending::a_tunnel_is_ended_between_two_instructions_and_it_is_told_who_did_it"],
    ),
    (
        "0x301",
        &[
            "attempts::what_is_no_fault_of_the_host_is_told_as_guacd_tells_it_and_tried_nowhere_else",
        ],
    ),
    (
        "0x303",
        &["people::a_login_that_disagrees_is_refused_where_both_must_match"],
    ),
    (
        "0x308",
        &["refusals::a_handshake_that_is_not_finished_in_time_is_told_so"],
    ),
    (
        "0x31D",
        &["capacity::a_user_with_all_the_tunnels_allowed_gets_another_once_one_has_ended"],
    ),
    // Nobody is let in.
    (
        "no host of farm office takes new sessions now",
        &[
            "explain::past_refusals_are_explained_with_hosts_and_without_also_after_a_restart",
            "faults::hosts::all_full_newcomers_hear_that_it_is_busy_and_the_next_seat_is_taken",
            "modes::maintenance_takes_nobody_and_online_everybody_again",
        ],
    ),
    (
        "which may not be used now",
        &["symptoms::who_has_a_tunnel_on_a_host_in_maintenance_waits_for_its_end"],
    ),
    (
        "2 tunnels are open",
        &["overload::a_tunnel_too_many_is_told_busy_and_the_others_notice_nothing"],
    ),
    (
        "has its fill of logons under way",
        &["symptoms::logons_that_do_not_finish_are_named_and_one_that_does_makes_room"],
    ),
    (
        "the placement took longer than its budget",
        &["symptoms::hosts_that_say_nothing_at_all_use_the_budget_up"],
    ),
    (
        "no host of farm office can be reached",
        &["symptoms::a_farm_out_of_reach_is_named_and_users_are_let_in_once_a_host_answers"],
    ),
    (
        "the store does not answer",
        &["symptoms::a_store_that_cannot_be_written_is_named_without_where_it_is"],
    ),
    // The connection.
    (
        "the connection names an unknown resource",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "left a token unfilled",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "this guacd has no parameter remote-app",
        &[
            "explain::a_placement_that_found_no_use_says_so",
            "rewrite::a_guacd_without_applications_is_refused_one_and_told_nothing",
        ],
    ),
    (
        "no such connection",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "resource old is disabled",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "the connection names no resource",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "the Guacamole login and the RDP user name are two persons",
        &["symptoms::connections_that_lead_nowhere_are_told_why"],
    ),
    (
        "Passed through",
        &[
            "carriers::a_connection_that_names_no_resource_passes_through_unchanged",
            "asking::what_nobody_asks_for_and_what_leads_nowhere_is_told",
        ],
    ),
    // The wrong host.
    (
        "have sessions on two of its hosts at once",
        &["liars::a_user_we_know_on_another_host_follows_no_single_claim"],
    ),
    (
        "Several domains know this bare user name: set default_domain to tell them apart",
        &["symptoms::a_bare_name_that_several_domains_have_is_said"],
    ),
    // Hosts and agents.
    (
        "Host does not answer RDP",
        &["placement_wire::a_host_that_goes_down_and_comes_back_is_said_and_used_again"],
    ),
    (
        "failed before it stood",
        &[
            "attempts::bounds::when_nothing_is_left_the_page_hears_guacds_own_code_the_hosts_and_the_decision",
        ],
    ),
    (
        "A host's breaker opened: nobody new is placed there",
        &[
            "breaker::a_host_that_flaps_gets_one_tunnel_to_try_and_everybody_once_that_stood",
            "breaker::a_host_that_lets_two_users_of_two_resources_down_gets_nobody_new_until_a_tunnel_stands",
        ],
    ),
    (
        "out: agent silent",
        &["symptoms::a_host_whose_agent_stopped_is_out_and_says_so"],
    ),
    (
        "is heard while its hosts answer: placing on what was known last",
        &["reported::one_silent_agent_takes_its_host_out_and_all_of_them_nobody"],
    ),
    (
        "The broker does not accept this host's key",
        &["agent::a_key_that_is_not_accepted_is_told_with_what_to_do_and_tried_again_slowly"],
    ),
    (
        "An enrollment waits for approval",
        &["enrollment::a_host_that_is_alive_is_replaced_by_nobody_with_a_token"],
    ),
    // guacd.
    (
        "cannot be reached",
        &["symptoms::a_guacd_that_is_down_is_named_in_message_and_status"],
    ),
    (
        "tls = true in [guacd]",
        &[
            "tls::guacd::a_guacd_with_tls_that_is_spoken_to_in_plain_text_is_told_apart",
            "tests/real/test_tls.py::test_plain_text_and_tls_are_told_apart",
        ],
    ),
    (
        "nothing but 0x203",
        &["refusals::a_guacd_that_speaks_out_of_turn_is_an_upstream_error"],
    ),
    // Start and configuration.
    ("cannot listen on", &["lifecycle::a_port_in_use_is_said"]),
    (
        "Configuration refused, the one before stays in force",
        &["reload::a_broken_file_changes_nothing_and_is_named_with_its_line_once"],
    ),
    (
        "Changed settings need a restart and stay as they were",
        &["reload::what_cannot_follow_is_said_to_need_a_restart"],
    ),
    (
        "cannot ask the broker",
        &["symptoms::a_command_line_without_its_broker_says_what_to_look_at"],
    ),
];

/// A row of a table of symptoms.
#[derive(Debug)]
struct Row {
    /// Its name in the map.
    name: String,
    /// What is quoted in its first cell.
    quotes: Vec<String>,
    /// The codes in that cell.
    codes: Vec<String>,
}

fn quotes(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(|part| part.replace("\\|", "|")).collect()
}

fn codes(cell: &str) -> Vec<String> {
    let words = cell.split(|c: char| !c.is_ascii_alphanumeric());
    let codes = words.filter(|word| word.starts_with("0x"));
    codes.map(str::to_owned).collect()
}

/// The rows of all tables of symptoms, and those of the page's words by their code.
fn rows(text: &str) -> Vec<Row> {
    let mut found = Vec::new();
    let mut head = String::new();
    for line in text.lines() {
        let Some(inner) = line.strip_prefix("| ") else {
            continue;
        };
        let cells: Vec<_> = inner.trim_end_matches(" |").split(" | ").collect();
        match (cells[0], cells.len()) {
            ("symptom" | "the page says", _) => cells[0].clone_into(&mut head),
            (_, 3) if head == "the page says" => found.push(Row {
                name: cells[1].to_owned(),
                quotes: Vec::new(),
                codes: codes(cells[1]),
            }),
            (symptom, 4) if head == "symptom" => {
                let quotes = quotes(symptom);
                let name = quotes.first().cloned();
                found.push(Row {
                    name: name.unwrap_or_else(|| symptom.to_owned()),
                    quotes,
                    codes: codes(symptom),
                });
            }
            _ => panic!("a row of no table that is known: {line}"),
        }
    }
    found
}

/// The text of a test, and of the constants of its file that it names.
fn source(test: &str) -> String {
    let (place, name) = test.rsplit_once("::").unwrap();
    let file = fs::read_to_string(file_of(place)).unwrap();
    let python = place.ends_with(".py");
    let (begin, end) = match python {
        true => (format!("def {name}("), "\ndef "),
        false => (format!("fn {name}("), "\n}\n"),
    };
    let (_, behind) = file.split_once(&begin).unwrap();
    let body = behind.split(end).next().unwrap();
    let mut text = body.to_owned();
    for line in file.lines() {
        let constant = line.strip_prefix("const ");
        let named = constant.and_then(|rest| rest.split(':').next());
        if named.is_some_and(|named| body.contains(named)) {
            text.push_str(line);
        }
    }
    // A text that goes on in the next line, and one that is written with escapes.
    let lines: Vec<_> = text.split("\\\n").map(str::trim_start).collect();
    lines.concat().to_lowercase()
}

/// How a status is written in Rust: as the page's code, or as guacd says it.
fn as_said(code: &str) -> [String; 2] {
    let number = u16::from_str_radix(&code[2..], 16).unwrap();
    [code.to_lowercase(), number.to_string()]
}

#[test]
fn every_symptom_is_reproduced() {
    let rows = rows(&guide("troubleshooting.md"));
    let map: BTreeMap<_, _> = REPRODUCED.iter().copied().collect();
    assert_eq!(map.len(), REPRODUCED.len(), "a symptom twice");
    let named: BTreeSet<_> = rows.iter().map(|row| row.name.as_str()).collect();
    for name in map.keys() {
        assert!(named.contains(name), "no row has the symptom {name:?}");
    }
    assert!(rows.len() > 30, "{}", rows.len());
    for row in &rows {
        let tests = map.get(row.name.as_str());
        let tests = tests.unwrap_or_else(|| panic!("nobody reproduces {row:?}"));
        for test in *tests {
            assert!(exists(test), "no such test: {test}, for {row:?}");
        }
        let sources: Vec<_> = tests.iter().map(|test| source(test)).collect();
        let has = |text: &str| sources.iter().any(|source| source.contains(text));
        for quote in &row.quotes {
            assert!(
                has(&quote.to_lowercase()),
                "no test of {row:?} says {quote:?}"
            );
        }
        for code in &row.codes {
            assert!(
                as_said(code).iter().any(|said| has(said)),
                "{code} of {row:?}"
            );
        }
    }
}

#[test]
fn a_row_that_nobody_reproduces_and_a_quote_that_nobody_saw_are_found() {
    let text = "| the page says | code | next |\n|---|---|---|\n| busy | 0x201 | x |\n\
                | symptom | why | look at | do |\n|---|---|---|---|\n\
                | alarm: `a b` and `c` (0x20B) | d | e | f |\n| plain | d | e | f |\n";
    let read = rows(text);
    let names: Vec<_> = read.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["0x201", "a b", "plain"]);
    assert_eq!(
        (&read[1].quotes[1], &read[1].codes[0]),
        (&"c".to_owned(), &"0x20B".to_owned())
    );
    assert!(std::panic::catch_unwind(|| rows("| a | b |\n")).is_err());
    // A constant counts where the test names it, and nothing of another test does.
    let this =
        "guides::reproduced::a_row_that_nobody_reproduces_and_a_quote_that_nobody_saw_are_found";
    assert!(source(this).contains("nobody reproduces"));
    let other = source("breaker::a_tunnel_that_stood_in_between_forgives_what_failed_before");
    assert!(!other.contains("half open, one connection may try"));
    assert_eq!(as_said("0x209"), ["0x209", "521"]);
}
