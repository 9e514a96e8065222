//! What every store promises about decisions.

use super::super::*;

/// A decision of this millisecond.
pub(in crate::store::tests) fn kept(millis: u64, names: &[&str]) -> Kept {
    Kept {
        id: (u128::from(millis) << 80) | 7,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        json: format!("{{\"at\":{millis}}}"),
    }
}

const WIDE: Bounds = Bounds {
    since: Timestamp::from_millis(0),
    rows: u64::MAX,
    bytes: u64::MAX,
};

pub(in crate::store::tests) async fn what_was_kept_is_found_by_its_id_and_by_its_names_newest_first(
    archive: Arc<dyn Whole>,
) {
    let ann = [r"corp\ann", "ann"];
    let (one, two, three) = (kept(1, &ann), kept(2, &["bob"]), kept(3, &ann[1..]));
    archive
        .keep(vec![two.clone(), one.clone()], false)
        .await
        .unwrap();
    archive.keep(vec![three.clone()], true).await.unwrap();
    assert_eq!(archive.decision(two.id).await, Ok(Some(two.json.clone())));
    assert_eq!(archive.decision(9).await, Ok(None));
    let texts = |of: &[&Kept]| Ok(of.iter().map(|kept| kept.json.clone()).collect());
    assert_eq!(
        archive.decisions(None, 9).await,
        texts(&[&three, &two, &one])
    );
    assert_eq!(archive.decisions(None, 2).await, texts(&[&three, &two]));
    assert_eq!(
        archive.decisions(Some("ann"), 9).await,
        texts(&[&three, &one])
    );
    assert_eq!(archive.decisions(Some("ann"), 1).await, texts(&[&three]));
    assert_eq!(archive.decisions(Some(ann[0]), 9).await, texts(&[&one]));
    assert_eq!(archive.decisions(Some("an"), 9).await, texts(&[]));
}

pub(in crate::store::tests) async fn kept_again_is_kept_once(archive: Arc<dyn Whole>) {
    let one = kept(1, &["ann"]);
    archive
        .keep(vec![one.clone(), one.clone()], true)
        .await
        .unwrap();
    archive.keep(vec![one.clone()], true).await.unwrap();
    assert_eq!(archive.decisions(Some("ann"), 9).await, Ok(vec![one.json]));
}

pub(in crate::store::tests) async fn the_oldest_beyond_the_bounds_are_forgotten_with_their_names(
    archive: Arc<dyn Whole>,
) {
    let all = (1..=400).map(|millis| kept(millis, &["ann"])).collect();
    archive.keep(all, true).await.unwrap();
    assert_eq!(archive.prune(WIDE).await, Ok(0));

    // In batches, until nothing is left to forget.
    let since = Timestamp::from_millis(151);
    let aged = Bounds { since, ..WIDE };
    for count in [100, 50, 0] {
        assert_eq!(archive.prune(aged).await, Ok(count));
    }
    let left = archive.decisions(Some("ann"), 2000).await.unwrap();
    assert_eq!(left.len(), 250);
    assert_eq!(archive.decision(kept(150, &[]).id).await, Ok(None));
    assert!(archive.decision(kept(151, &[]).id).await.unwrap().is_some());

    let rows = Bounds { rows: 40, ..WIDE };
    for count in [100, 100, 10, 0] {
        assert_eq!(archive.prune(rows).await, Ok(count));
    }
    // Ten bytes each; one stays.
    let bytes = Bounds { bytes: 19, ..WIDE };
    assert_eq!(archive.prune(bytes).await, Ok(39));
    let left = kept(400, &[]).json;
    assert_eq!(archive.decisions(Some("ann"), 9).await, Ok(vec![left]));
}
