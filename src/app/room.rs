//! What a start finds: where others reach us, and how much there is room for.

use tracing::{info, warn};

use crate::config::{Config, HostPort};
use crate::descriptors::Descriptors;
use crate::replicas::Reached;
use crate::tls::Acceptor;
use crate::tunnel::{Door, Gateway};

/// Where other replicas reach us, with the port the system chose.
pub(super) fn reached(doors: &[Door]) -> Reached {
    let found = doors.iter().find_map(|door| {
        let advertised = door.settings.advertise.as_ref()?;
        let bound = door.listener.local_addr().ok()?.port();
        let address = HostPort {
            host: advertised.host.clone(),
            port: advertised.port.unwrap_or(bound),
        };
        Some((address, door.tls.clone()))
    });
    let (address, acceptor) = found.unzip();
    let acceptor = acceptor.flatten();
    Reached {
        address,
        certificate: Box::new(move || acceptor.as_ref().and_then(Acceptor::fingerprint)),
    }
}

pub(super) fn say_what_there_is_room_for(
    descriptors: Descriptors,
    config: &Config,
    gateway: &Gateway,
) {
    let most = gateway.limits().most_tunnels();
    info!(
        descriptors = descriptors.limit(),
        reserve = descriptors.reserve(),
        max_tunnels = most,
        max_guacd_dials = config.limits.max_guacd_dials,
        "Room for tunnels"
    );
    if let Some(wanted) = config.limits.max_tunnels.filter(|wanted| *wanted > most) {
        warn!(
            wanted,
            most,
            "max_tunnels in [limits] is more than the hard limit of descriptors allows: raise that \
             to four times the tunnels (ulimit -Hn, LimitNOFILE=)"
        );
    }
}
