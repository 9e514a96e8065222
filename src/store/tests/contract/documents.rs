//! What every store promises about documents.

use super::super::*;

pub(in crate::store::tests) fn edit(
    kind: Kind,
    id: &str,
    expected: Option<Version>,
    text: Option<&str>,
) -> Edit {
    Edit {
        kind,
        id: id.to_owned(),
        expected,
        text: text.map(str::to_owned),
    }
}

fn said(all: &[Document]) -> Vec<(&str, &str)> {
    let all = all.iter();
    all.map(|one| (one.id.as_str(), one.text.as_str()))
        .collect()
}

pub(in crate::store::tests) async fn a_kind_lists_its_own_documents_in_the_order_of_their_ids(
    documents: Arc<dyn Whole>,
) {
    let edits = [
        (Kind::Mode, "b", "drain"),
        (Kind::Mode, "a", "online"),
        (Kind::Report, "a", "fine"),
        (Kind::Key, "a", "k"),
    ];
    let edits = edits.map(|(kind, id, text)| edit(kind, id, None, Some(text)));
    let done = documents.edit(edits.to_vec(), true).await;
    assert_eq!(done, Ok(Edited::Done));
    let modes = documents.documents(Kind::Mode).await.unwrap();
    assert_eq!(said(&modes), [("a", "online"), ("b", "drain")]);
    let report = documents.document(Kind::Report, "a").await.unwrap();
    assert_eq!(report.unwrap().text, "fine");
    assert_eq!(documents.document(Kind::Report, "b").await, Ok(None));
    assert_eq!(documents.documents(Kind::Command).await, Ok(Vec::new()));
}

pub(in crate::store::tests) async fn edits_are_made_all_or_none(documents: Arc<dyn Whole>) {
    let first = edit(Kind::Mode, "a", Some(Version::ABSENT), Some("drain"));
    documents.edit(vec![first.clone()], true).await.unwrap();
    let known = documents.document(Kind::Mode, "a").await.unwrap().unwrap();

    let others = [
        edit(Kind::Mode, "b", None, Some("drain")),
        edit(Kind::Mode, "a", Some(Version::ABSENT), Some("online")),
    ];
    let late = documents.edit(others.to_vec(), true).await;
    assert_eq!(late, Ok(Edited::Conflict));
    let all = documents.documents(Kind::Mode).await.unwrap();
    assert_eq!(all, std::slice::from_ref(&known));

    let removed = edit(Kind::Mode, "a", Some(known.version), None);
    let done = documents.edit(vec![removed.clone()], true).await;
    assert_eq!(done, Ok(Edited::Done));
    assert_eq!(documents.documents(Kind::Mode).await, Ok(Vec::new()));
    // What was removed and came back is another writing.
    documents.edit(vec![first], true).await.unwrap();
    let stale = documents.edit(vec![removed], true).await;
    assert_eq!(stale, Ok(Edited::Conflict));
}
