//! Every procedure of a guide, and the tests that show that it does what it says.

use std::collections::BTreeSet;

use super::super::faults::table::exists;
use super::{GUIDES, guide};

/// Tests of a section, or the reason why there can be none.
enum Proof {
    Tests(&'static [&'static str]),
    None(&'static str),
}

use Proof::{None as Untested, Tests};

const PROVED: &[(&str, &str, Proof)] = &[
    (
        "adopt.md",
        "1. Install it beside guacd (10 minutes)",
        Tests(&["guides::moves::adopting_is_observing_then_piloting_then_switching"]),
    ),
    (
        "adopt.md",
        "2. Observe (10 minutes, or a week)",
        Tests(&[
            "guides::moves::adopting_is_observing_then_piloting_then_switching",
            "observe::every_decision_is_logged_and_every_connection_goes_on_as_it_came",
        ]),
    ),
    (
        "adopt.md",
        "3. Pilot (20 minutes)",
        Tests(&[
            "guides::moves::adopting_is_observing_then_piloting_then_switching",
            "tests/real/test_guides.py::test_the_first_hour_as_the_guide_tells_it",
        ]),
    ),
    (
        "adopt.md",
        "4. Switch (10 minutes)",
        Tests(&[
            "guides::moves::adopting_is_observing_then_piloting_then_switching",
            "carriers::a_connection_that_names_no_resource_passes_through_unchanged",
        ]),
    ),
    (
        "adopt.md",
        "5. Close the side door",
        Tests(&[
            "tokens::where_the_unmatched_are_refused_other_protocols_still_pass",
            "tls::guacd::a_self_signed_guacd_is_known_by_its_pin_alone",
        ]),
    ),
    (
        "from-haproxy.md",
        "What becomes of it",
        Tests(&[
            "capacity::a_full_host_turns_a_new_user_away_and_admits_one_who_returns",
            "morning::a_host_that_was_just_switched_on_fills_slowly",
            "attempts::a_refused_host_is_followed_by_one_that_stands_and_the_page_sees_that_alone",
        ]),
    ),
    (
        "from-haproxy.md",
        "Take over",
        Tests(&["guides::moves::what_haproxy_balanced_is_placed_by_the_name_it_had"]),
    ),
    (
        "from-haproxy.md",
        "Roll back",
        Untested("Guacamole's own setting and HAProxy, which stays as it is"),
    ),
    (
        "from-rd-connection-broker.md",
        "What becomes of it",
        Tests(&[
            "tokens::load_balance_info_names_its_resource_and_is_cleared",
            "commands::a_drained_host_is_restarted_once_nobody_is_on_it",
            "reported::users_go_back_to_sessions_opened_anywhere_whatever_the_score",
        ]),
    ),
    (
        "from-rd-connection-broker.md",
        "Observe first",
        Tests(&["guides::moves::a_collection_is_watched_then_taken_over_and_its_connections_stay"]),
    ),
    (
        "from-rd-connection-broker.md",
        "Take the hosts over",
        Tests(&["guides::moves::a_collection_is_watched_then_taken_over_and_its_connections_stay"]),
    ),
    (
        "from-rd-connection-broker.md",
        "Roll back",
        Tests(&["guides::moves::a_collection_is_watched_then_taken_over_and_its_connections_stay"]),
    ),
    (
        "from-sessionguard-extension.md",
        "What becomes of it",
        Tests(&["tokens::every_token_is_filled_in_every_parameter_but_the_credentials"]),
    ),
    (
        "from-sessionguard-extension.md",
        "1. Take over broker and agents",
        Tests(&[
            "guides::moves::the_extension_is_answered_until_it_is_taken_out",
            "enrollment::a_token_becomes_the_key_of_its_host_once_and_the_key_reports_for_it_alone",
        ]),
    ),
    (
        "from-sessionguard-extension.md",
        "2. Point the extension here",
        Tests(&[
            "guides::moves::the_extension_is_answered_until_it_is_taken_out",
            "resolve::tokens_are_answered_as_forms_and_what_is_not_ours_is_empty",
        ]),
    ),
    (
        "from-sessionguard-extension.md",
        "3. Let connections come through us",
        Tests(&["guides::moves::the_extension_is_answered_until_it_is_taken_out"]),
    ),
    (
        "from-sessionguard-extension.md",
        "Roll back",
        Untested("Guacamole's own setting; that we go on answering is step 2"),
    ),
    (
        "day-2.md",
        "Patch night",
        Tests(&[
            "commands::a_drained_host_is_restarted_once_nobody_is_on_it",
            "commands::a_command_goes_from_the_command_line_to_the_agent_and_its_answer_back",
            "modes::wait_ends_when_the_host_is_empty",
            "modes::an_announced_mode_is_shown_kept_and_cancelled",
            "modes::a_farm_is_ordered_as_a_whole_and_its_last_host_only_by_force",
            "modes::a_mode_with_an_end_comes_back_by_itself",
            "ending::every_tunnel_to_a_host_is_ended_and_none_to_another",
        ]),
    ),
    (
        "day-2.md",
        "A host is added",
        Tests(&["guides::moves::a_host_is_added_in_maintenance_and_let_in"]),
    ),
    (
        "day-2.md",
        "A host is replaced",
        Tests(&[
            "guides::moves::a_replaced_host_is_enrolled_again_and_frees_its_users",
            "enrollment::a_host_that_is_alive_is_replaced_by_nobody_with_a_token",
            "reload::a_host_that_moves_is_found_at_its_new_address",
            "parameters::a_resource_wins_over_the_host_and_both_over_the_connection",
        ]),
    ),
    (
        "day-2.md",
        "The database fails over",
        Tests(&[
            "faults::database::failed_over_to_a_standby_that_lost_the_last_claims_it_is_told_them_again_first",
            "faults::database::an_old_primary_that_turned_read_only_is_left_for_the_next_address_of_the_name",
            "faults::database::degraded_users_with_a_lease_go_back_to_its_host_and_nobody_else_is_placed",
            "symptoms::a_store_that_cannot_be_written_is_named_without_where_it_is",
        ]),
    ),
    (
        "day-2.md",
        "A key is lost",
        Tests(&[
            "keys::a_key_is_made_listed_and_revoked",
            "keys::an_exchanged_key_file_is_taken_over_and_one_that_is_no_good_is_not",
            "faults::agents::a_wrong_or_revoked_key_is_turned_away_and_what_was_known_stays",
            "faults::agents::a_key_is_exchanged_without_one_rejected_heartbeat",
            "tls::reload::a_reload_that_exchanges_a_certificate_says_so",
            "tls::guacd::two_pins_are_for_the_time_of_an_exchange",
        ]),
    ),
    (
        "day-2.md",
        "Backup and restore",
        Tests(&[
            "guides::moves::a_copy_of_the_store_is_a_backup",
            "faults::database::rows_deleted_behind_its_back_are_there_again_before_anybody_is_placed",
        ]),
    ),
    (
        "day-2.md",
        "From the embedded store to PostgreSQL",
        Tests(&[
            "reload::what_cannot_follow_is_said_to_need_a_restart",
            "guides::moves::in_another_store_keys_and_orders_begin_anew",
        ]),
    ),
    (
        "day-2.md",
        "Upgrade",
        Tests(&[
            "lifecycle::check_leaves_a_running_broker_alone",
            "lifecycle::an_open_tunnel_goes_on_and_the_process_ends_with_it",
            "leases::a_user_returns_after_a_restart",
            "supervised::who_comes_while_nobody_runs_waits_in_the_socket_that_is_handed_over",
            "supervised::at_sigusr2_a_successor_takes_over_and_the_manager_looks_after_it",
            "upgrade::the_new_one_has_port_and_store_and_the_old_one_its_tunnels_until_they_end",
            "upgrade::with_a_database_it_is_the_same",
        ]),
    ),
];

#[test]
fn every_procedure_is_proved() {
    let mut found = BTreeSet::new();
    for name in GUIDES.iter().filter(|name| **name != "troubleshooting.md") {
        let text = guide(name);
        let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
        found.extend(headings.map(|heading| (name.to_string(), heading.to_owned())));
    }
    let mapped: BTreeSet<_> = PROVED
        .iter()
        .map(|(name, heading, _)| ((*name).to_owned(), (*heading).to_owned()))
        .collect();
    assert_eq!(
        found, mapped,
        "headings of the guides, and those with a proof"
    );
    for (name, heading, proof) in PROVED {
        match proof {
            Tests(tests) => {
                assert!(!tests.is_empty(), "{name}: {heading}");
                for test in *tests {
                    assert!(exists(test), "{name}: {heading}: no such test: {test}");
                }
            }
            Untested(reason) => assert!(reason.len() > 40, "{name}: {heading}"),
        }
    }
}
