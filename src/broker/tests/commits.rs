//! What a morning's logons cost the disk.

use super::*;
use crate::store::counted;

/// Users who open the desktop in the same moment.
const CROWD: usize = 100;

#[tokio::test]
async fn placements_of_many_connections_share_their_commits() {
    let (store, disk) = counted::store();
    // As many logons at once as there are users, so that none has to wait for another's.
    let rules = Rules {
        max_pending_logons: 100,
        ..Rules::default()
    };
    let farm = ruled(&["a", "b", "c"], rules);
    let house = Arc::new(House::open(farm, |_| Arc::new(store)).await);
    disk.slow_down(50);
    let before = disk.syncs();
    let mut crowd = JoinSet::new();
    for n in 0..CROWD {
        let house = Arc::clone(&house);
        crowd.spawn(async move { house.place(&format!("user{n}"), &format!("t{n}")).await });
    }
    let placed = crowd.join_all().await;
    let syncs = disk.syncs() - before;
    assert_eq!(placed.len(), CROWD);
    assert_eq!(
        house.store.after(None, 10_000).await.unwrap().len(),
        CROWD,
        "each claim is stored"
    );
    // One each would be a hundred. Who asks while the disk turns is done with the next turn.
    assert!(syncs <= CROWD / 8, "{syncs} syncs for {CROWD} placements");
}
