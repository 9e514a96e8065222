//! Who asks for what, in which spelling, and where that must lead.

use std::collections::{BTreeMap, BTreeSet};

use sessionguard::placement::{Carriers, Claims, Farm, FarmId, Request, Resource, ResourceKind};

use super::dice::Dice;
use super::scene::{ASTRAY, PEOPLE, Person, RETIRED, Scene};

/// Domain (empty: none) and user, both folded.
pub(super) type Who = (String, String);

/// One connect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    /// `None`: Guacamole will prompt.
    pub(super) person: Option<Person>,
    spelling: Spelling,
    /// The Guacamole login is somebody else's.
    pub(super) doubtful: bool,
    /// The connection asks for a RemoteApp by itself.
    brings_app: bool,
    door: Door,
}

/// The RemoteApp a connection brings, as somebody may have typed it.
const OWN_APP: &str = "SAGE";

#[derive(Debug, Clone, Copy)]
enum Spelling {
    Backslash,
    Upn,
    Suffix,
    TwoFields,
    Shouted,
    LoginOnly,
    Bare,
}

/// What in the connection names its resource; the number is a farm's.
#[derive(Debug, Clone, Copy)]
enum Door {
    Desk(usize),
    App(usize),
    Hostname(usize),
    Name(usize),
    Farm(usize),
    AnyHost,
    NoSuchFarm,
    NoSuchResource,
    Astray,
    Retired,
    Stranger,
}

/// Where a door must lead.
pub(super) enum Lead<'a> {
    /// To a host of this farm.
    To(Option<&'a Resource>, &'a Farm),
    /// To this refusal.
    Closed(&'static str),
    /// Past us.
    NotOurs,
}

impl Ask {
    pub(super) fn roll(scene: &Scene, dice: &mut Dice) -> Self {
        let farm = dice.index(scene.farms.len());
        let door = match dice.below(100) {
            0..=44 => Door::Desk(farm),
            45..=69 => Door::App(farm),
            70..=77 => Door::Hostname(farm),
            78..=83 => Door::Name(farm),
            84..=89 => Door::Farm(farm),
            90..=94 => Door::AnyHost,
            95 => Door::NoSuchFarm,
            96 => Door::NoSuchResource,
            97 => Door::Astray,
            98 => Door::Retired,
            _ => Door::Stranger,
        };
        Self {
            person: dice.chance(94).then(|| *dice.pick(&PEOPLE)),
            spelling: *dice.pick(&[
                Spelling::Backslash,
                Spelling::Upn,
                Spelling::Suffix,
                Spelling::TwoFields,
                Spelling::Shouted,
                Spelling::LoginOnly,
                Spelling::Bare,
            ]),
            doubtful: dice.chance(6),
            brings_app: dice.chance(30) && !matches!(door, Door::Hostname(_)),
            door,
        }
    }

    /// A person at the desktop of the first farm.
    pub(super) fn desk(person: Person) -> Self {
        Self {
            person: Some(person),
            spelling: Spelling::Backslash,
            doubtful: false,
            brings_app: false,
            door: Door::Desk(0),
        }
    }

    /// The same person through another door.
    pub(super) fn again(self, scene: &Scene, dice: &mut Dice) -> Self {
        let person = self.person;
        if dice.chance(50) {
            return self;
        }
        Self {
            person,
            ..Self::roll(scene, dice)
        }
    }

    pub(super) fn request(&self, scene: &Scene) -> Request {
        Request {
            carriers: self.carriers(scene),
            claims: self.claims(),
            ..Request::default()
        }
    }

    fn claims(&self) -> Claims {
        let other = |name: &str| (if self.doubtful { "mallory" } else { name }).to_owned();
        let Some(Person { user, domain }) = self.person else {
            return Claims::default();
        };
        let claims = |username: String, domain: &str, name| Claims {
            username,
            domain: domain.to_owned(),
            name,
        };
        let Some(domain) = domain else {
            return claims(user.to_owned(), "", other(user));
        };
        match self.spelling {
            Spelling::Backslash => claims(format!("{domain}\\{user}"), "", other("")),
            Spelling::Upn => claims(format!("{user}@{domain}"), "", other(user)),
            Spelling::Suffix if domain == "corp" => {
                claims(format!("{user}@Corp.Example.com"), "ignored", other(user))
            }
            Spelling::TwoFields | Spelling::Suffix => {
                claims(user.to_owned(), domain, other(&format!("{user}@{domain}")))
            }
            Spelling::Shouted => {
                claims(format!(" {domain}\\{user} ").to_uppercase(), "", other(""))
            }
            // A login alone cannot disagree with anything.
            Spelling::LoginOnly => claims(String::new(), "", format!("{domain}\\{user}")),
            Spelling::Bare => claims(user.to_owned(), "", other(user)),
        }
    }

    /// Whether the login and the RDP user are two persons.
    pub(super) fn disagrees(&self) -> bool {
        let login_only = matches!(self.spelling, Spelling::LoginOnly);
        self.person
            .is_some_and(|person| self.doubtful && !(login_only && person.domain.is_some()))
    }

    /// Who that is, in this farm and by the names known so far.
    pub(super) fn who(
        &self,
        scene: &Scene,
        farm: &Farm,
        known: &BTreeMap<String, BTreeSet<String>>,
    ) -> Option<Who> {
        let person = self.person?;
        let user = person.user.to_owned();
        let written = person
            .domain
            .filter(|_| !matches!(self.spelling, Spelling::Bare));
        if let Some(domain) = written {
            return Some((domain.to_owned(), user));
        }
        let default = farm.overrides.default_domain.as_ref();
        if let Some(domain) = default.or(scene.rules.default_domain.as_ref()) {
            return Some((domain.to_lowercase(), user));
        }
        let only = known.get(&user).filter(|domains| domains.len() == 1);
        let domain = only.and_then(|domains| domains.first().cloned());
        Some((domain.unwrap_or_default(), user))
    }

    fn carriers(&self, scene: &Scene) -> Carriers {
        let id = |farm: usize| scene.farms[farm].id.as_str();
        let mut carriers = Carriers::default();
        match self.door {
            Door::Desk(farm) => carriers.resource = Some(format!("desk-{}", id(farm)).into()),
            Door::App(farm) => carriers.resource = Some(format!("app-{}", id(farm)).into()),
            Door::Hostname(farm) => carriers.hostname = format!("{}.Example.com.", id(farm)),
            Door::Name(farm) => carriers.connection_name = Some(format!("DESK {}", id(farm))),
            Door::Farm(farm) => carriers.farm = Some(id(farm).into()),
            Door::AnyHost => carriers.any_host = true,
            Door::NoSuchFarm => carriers.farm = Some("nowhere".into()),
            Door::NoSuchResource => carriers.resource = Some("no-such".into()),
            Door::Astray => carriers.resource = Some(ASTRAY.into()),
            Door::Retired => carriers.resource = Some(RETIRED.into()),
            Door::Stranger => carriers.hostname = "stranger.example.com".to_owned(),
        }
        if self.brings_app {
            carriers.remote_app = OWN_APP.to_owned();
        }
        carriers
    }

    /// The RemoteApp its host must have: the resource's, or where that is up to
    /// the connection, the connection's.
    pub(super) fn needs_app(&self, resource: Option<&Resource>) -> Option<String> {
        match resource.map(|r| &r.kind) {
            Some(ResourceKind::RemoteApp(app)) => Some(app.alias.clone()),
            Some(ResourceKind::Desktop) => None,
            Some(ResourceKind::AsConnected) | None => self.brings_app.then(|| OWN_APP.to_owned()),
        }
    }

    pub(super) fn leads<'a>(&self, scene: &'a Scene) -> Lead<'a> {
        let (resource, farm): (Option<String>, FarmId) = match self.door {
            Door::Desk(farm) | Door::Hostname(farm) | Door::Name(farm) => {
                let id = scene.farms[farm].id.clone();
                (Some(format!("desk-{id}")), id)
            }
            Door::App(farm) => {
                let id = scene.farms[farm].id.clone();
                (Some(format!("app-{id}")), id)
            }
            Door::Farm(farm) => (None, scene.farms[farm].id.clone()),
            Door::AnyHost => match &scene.rules.default_farm {
                Some(id) => (None, id.clone()),
                None => return Lead::Closed("no farm"),
            },
            Door::NoSuchFarm | Door::Astray => return Lead::Closed("unknown farm"),
            Door::NoSuchResource => return Lead::Closed("unknown resource"),
            Door::Retired => return Lead::Closed("resource disabled"),
            Door::Stranger => return Lead::NotOurs,
        };
        let find = |id: String| scene.resources.iter().find(|r| r.id.as_str() == id);
        let resource = resource.and_then(find);
        if resource.is_some_and(|r| !r.enabled) {
            return Lead::Closed("resource disabled");
        }
        match scene.farm(&farm) {
            Some(farm) if farm.enabled => Lead::To(resource, farm),
            _ => Lead::Closed("farm disabled"),
        }
    }
}
