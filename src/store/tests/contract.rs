//! The contract of a store, and every store there is held to it.

pub(super) mod archive;
pub(super) mod documents;
mod feed;
mod leases;
mod standings;

/// Runs every test on every store: the file, the database, and the database
/// behind a pooler in transaction mode.
macro_rules! on_every_store {
    ($($room:ident::$test:ident),* $(,)?) => {
        mod embedded_store {
            $(#[tokio::test]
            async fn $test() {
                let (_folder, store) = super::super::embedded();
                super::$room::$test(store).await;
            })*
        }

        mod postgres_store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(store) = super::super::postgres::fresh().await {
                    super::$room::$test(store).await;
                }
            })*
        }

        mod pooled_postgres_store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(store) = super::super::postgres::pooled().await {
                    super::$room::$test(store).await;
                }
            })*
        }
    };
}

on_every_store!(
    leases::what_was_written_is_read_back,
    leases::a_writer_who_read_before_another_wrote_loses_and_changes_nothing,
    leases::an_empty_record_removes_the_key_and_an_old_version_stays_old,
    leases::of_many_writers_at_once_exactly_one_wins,
    leases::a_write_gives_the_version_to_name_next_removals_included,
    leases::all_lists_every_record_in_key_order,
    leases::records_are_read_a_few_at_a_time_after_a_key,
    documents::a_kind_lists_its_own_documents_in_the_order_of_their_ids,
    documents::edits_are_made_all_or_none,
    archive::what_was_kept_is_found_by_its_id_and_by_its_names_newest_first,
    archive::kept_again_is_kept_once,
    archive::the_oldest_beyond_the_bounds_are_forgotten_with_their_names,
);

/// The same for what is promised to replicas, on two of them.
macro_rules! on_every_shared_store {
    ($($room:ident::$test:ident),* $(,)?) => {
        mod shared_postgres_store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(replicas) = super::super::postgres::two().await {
                    super::$room::$test(replicas).await;
                }
            })*
        }

        mod shared_pooled_postgres_store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(replicas) = super::super::postgres::two_pooled().await {
                    super::$room::$test(replicas).await;
                }
            })*
        }
    };
}

on_every_shared_store!(
    standings::a_claim_that_had_not_seen_anothers_is_refused_and_writes_nothing,
    standings::ones_own_claims_leave_nobody_behind_but_the_others,
    standings::what_places_nobody_or_is_refused_leaves_nobody_behind,
    standings::anothers_claims_pass_as_far_as_there_is_room_for_them,
    standings::anothers_order_for_a_host_is_seen_before_the_next_claim,
    standings::of_many_claims_on_a_host_at_once_none_passes_unseen,
    standings::without_its_condition_claims_pass_unseen_and_that_is_noticed,
    feed::at_first_it_tells_all_there_is_and_then_what_changed,
    feed::what_many_write_at_once_is_told_in_order_and_to_the_end,
    feed::what_is_committed_late_is_told_then_and_the_rest_before,
    feed::after_another_server_or_too_long_it_tells_all_there_is,
);
