//! Every default there is, written out: a change here is a change of what an
//! empty configuration does.

use super::build::secs;
use crate::config::Config;
use crate::placement::*;

#[test]
fn the_rules() {
    let Rules {
        reconnect_existing,
        single_session_per_user,
        lease,
        min_health_score,
        offline_after,
        reconnect_failover,
        default_farm,
        allow_farm_selector,
        weights,
        max_sessions,
        max_pending_logons,
        slow_start,
        max_tunnels_per_user,
        trust_agents,
        agent_trust_threshold,
        unmatched,
        conduct,
        identity_order,
        default_domain,
        domains,
        require_match,
    } = Rules::default();
    assert!(reconnect_existing);
    assert!(single_session_per_user);
    assert_eq!(lease, secs(900));
    assert_eq!(min_health_score, 60);
    assert_eq!(offline_after, secs(30));
    assert_eq!(reconnect_failover, secs(30));
    assert_eq!(default_farm, None);
    assert!(!allow_farm_selector);
    let Weights {
        health,
        active,
        disconnected,
        cpu,
        memory,
    } = weights;
    assert_eq!(
        (health, active, disconnected, cpu, memory),
        (10, 20, 5, 2, 1)
    );
    assert_eq!(max_sessions, None);
    assert_eq!(max_pending_logons, 10);
    assert_eq!(slow_start, secs(60));
    assert_eq!(max_tunnels_per_user, None);
    assert_eq!(trust_agents, TrustAgents::Always);
    assert_eq!(agent_trust_threshold, 20);
    assert_eq!(unmatched, Unmatched::Pass);
    assert_eq!(conduct, Conduct::Broker);
    assert_eq!(
        identity_order,
        [IdentitySource::Username, IdentitySource::Name]
    );
    assert_eq!(default_domain, None);
    assert!(domains.is_empty());
    assert!(!require_match);
}

#[test]
fn the_spans_of_a_lease() {
    assert_eq!(RENEWAL, secs(15));
    assert_eq!(CLAIM, secs(45));
    assert_eq!(UNSEEN, secs(60));
    assert_eq!(HISTORY, secs(30 * 24 * 3600));
}

#[test]
fn the_rest_of_the_broker() {
    let Config {
        listen,
        guacd,
        probe,
        timeouts,
        directory,
        ..
    } = Config::default();
    let [listen] = listen.as_slice() else {
        panic!("{listen:?}");
    };
    assert_eq!(listen.address.to_string(), "127.0.0.1:4822");
    assert_eq!(listen.source, None);
    assert_eq!(listen.first_byte_timeout, secs(30));
    assert_eq!(listen.handshake_timeout, secs(15));
    assert_eq!(guacd.members[0].address.to_string(), "127.0.0.1:4823");
    assert_eq!(guacd.connect_timeout(), secs(3));
    assert_eq!((probe.interval, probe.timeout), (secs(10), secs(2)));
    assert_eq!(timeouts.placement, secs(10));
    assert_eq!(timeouts.drain, secs(8 * 3600));
    assert_eq!(directory.rules(), &Rules::default());
}
