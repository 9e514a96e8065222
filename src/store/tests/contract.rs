//! The contract of a store, and every store there is held to it.

pub(super) mod archive;
pub(super) mod documents;
mod leases;

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
    leases::all_lists_every_record_in_key_order,
    leases::records_are_read_a_few_at_a_time_after_a_key,
    documents::a_kind_lists_its_own_documents_in_the_order_of_their_ids,
    documents::edits_are_made_all_or_none,
    archive::what_was_kept_is_found_by_its_id_and_by_its_names_newest_first,
    archive::kept_again_is_kept_once,
    archive::the_oldest_beyond_the_bounds_are_forgotten_with_their_names,
);
