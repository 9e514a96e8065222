//! A PostgreSQL server and a pgbouncer before it, for one test process: started when first asked
//! for, on loopback ports that were free, and ended with the process. Never the machine's own.
//!
//! Also included by the tests of the store, inside the library, and by the benchmarks.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Set where a test that cannot run must fail.
const NO_SKIP: &str = "SESSIONGUARD_NO_SKIP";

/// The role that owns the databases, and its password.
pub(crate) const USER: &str = "owner";
pub(crate) const PASSWORD: &str = "tRsk4-9fWq-71bd";

/// Runs one program until our end of its standard input is closed; a signal's name said there ends
/// it and `start` starts it again, with options, each answered by its process id, or 0 for none. Databases refuse
/// to run as root, so it all belongs to another user then.
const KEEPER: &str = r#"
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR="$folder" HOME="$folder"
prepare "$folder" >"$folder/log" 2>&1 || { echo "failed"; cat "$folder/log"; exit 1; }
run "$folder" >>"$folder/log" 2>&1 </dev/null &
pid=$!
echo "$folder $pid"
while read -r word options; do
    if [ "$word" = start ]; then
        # As they are split by blanks.
        run "$folder" $options >>"$folder/log" 2>&1 </dev/null &
        pid=$!
        echo "$pid"
    else
        kill -"$word" "$pid" 2>/dev/null || true
        wait "$pid" || true
        echo 0
    fi
done
kill -INT "$pid" 2>/dev/null || true
wait "$pid" || true
"#;

/// One server, ended when this is dropped or the process ends.
pub(crate) struct Server {
    keeper: Child,
    #[allow(dead_code, reason = "only tests of brokers stop it for a while")]
    answers: BufReader<ChildStdout>,
    address: &'static str,
    pub(crate) port: u16,
    folder: PathBuf,
    pid: String,
}

impl Server {
    fn start(address: &'static str, port: u16, script: &str) -> Self {
        let mut command = Command::new("sh");
        if is_root() {
            command = Command::new(AS_NOBODY[0]);
            command.args(&AS_NOBODY[1..]).arg("sh");
        }
        Self::start_by(command, address, port, script)
    }

    /// By a command that runs a shell as a user who may run databases.
    fn start_by(mut command: Command, address: &'static str, port: u16, script: &str) -> Self {
        let mut keeper = command
            .args(["-c", &format!("{script}\n{KEEPER}")])
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(keeper.stdout.take().unwrap());
        out.read_line(&mut said).unwrap();
        let (folder, pid) = said.trim().split_once(' ').unwrap_or_else(|| {
            let mut rest = String::new();
            std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
            panic!("the server cannot be prepared: {rest}")
        });
        Self {
            port,
            folder: folder.into(),
            pid: pid.to_owned(),
            keeper,
            answers: out,
            address,
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        (self.address.parse::<std::net::IpAddr>().unwrap(), self.port).into()
    }

    /// What it has written to its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Stops it and everything it started, so that connections stay and nobody answers.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Ends it: in good order with all its connections, or `at_once` as a crash would. It is gone
    /// once this returns.
    #[allow(dead_code, reason = "only tests of brokers stop it for a while")]
    pub(crate) fn stop(&mut self, at_once: bool) {
        self.tell(if at_once { "QUIT" } else { "INT" });
    }

    /// Starts it again with what it had; it listens once this returns.
    pub(crate) fn start_again(&mut self) {
        self.start_with("");
    }

    /// The same with more options of `postgres`.
    pub(crate) fn start_with(&mut self, options: &str) {
        self.pid = self.tell(&format!("start {options}"));
        self.wait_until_it_listens();
        // It lets nobody in before it has recovered.
        self.psql("postgres", "SELECT 1");
    }

    fn tell(&mut self, word: &str) -> String {
        let keeper = self.keeper.stdin.as_mut().unwrap();
        keeper.write_all(format!("{word}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    fn signal(&self, signal: &str) {
        let pid = &self.pid;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        // It goes first: then it starts no more. One that has just ended hears nothing.
        let all = std::iter::once(pid.as_str()).chain(children.split_whitespace());
        let mut kill = Command::new("kill");
        let _ = kill.arg(signal).args(all).stderr(Stdio::null()).status();
    }

    fn wait_until_it_listens(&mut self) {
        let until = Instant::now() + Duration::from_secs(30);
        while std::net::TcpStream::connect((self.address, self.port)).is_err() {
            assert!(Instant::now() < until, "it does not listen: {}", self.log());
            assert!(self.keeper.try_wait().unwrap().is_none(), "{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is stopped hears nothing.
        self.thaw();
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Names the folder with the programs of the release to be tested.
const RELEASE: &str = "SESSIONGUARD_TEST_POSTGRES";

/// That release's, or those of the newest PostgreSQL of this machine.
pub(crate) fn programs() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(RELEASE).map(PathBuf::from) {
        assert!(named.join("initdb").exists(), "{RELEASE} has no initdb");
        return Some(named);
    }
    let releases = fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = releases.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let mut folders: Vec<_> = folders.filter(|bin| bin.join("initdb").exists()).collect();
    folders.sort();
    folders.pop()
}

const POOLER: &str = "/usr/sbin/pgbouncer";

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server of one's own. `None`, said loudly, where there is none to be had.
pub(crate) fn server() -> Option<Server> {
    // What a test writes need not outlive the machine.
    server_with("-c fsync=off -c log_statement=all")
}

/// The same with options of `postgres`.
pub(crate) fn server_with(options: &str) -> Option<Server> {
    started("127.0.0.1", free_port(), options, None)
}

/// The same on an address and port of the test's choice.
pub(crate) fn server_at(address: &'static str, port: u16) -> Option<Server> {
    started(address, port, "-c fsync=off", None)
}

/// A disk of a few MiB in the server's own view of the machine.
pub(crate) struct SmallDisk {
    /// Where the server finds it.
    pub(crate) inside: PathBuf,
    /// Where everybody else does.
    pub(crate) outside: PathBuf,
}

/// One with a small disk besides its own; `None`, said loudly, without root.
pub(crate) fn server_on_small_disk() -> Option<Server> {
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        skipped("root, for a mount namespace; it");
        return None;
    }
    let port = free_port();
    let script = script("127.0.0.1", port, "-c fsync=off", None)?;
    // Nobody else looks there: it is seen in that namespace alone.
    let mount = format!(
        "mount -t tmpfs -o size=4m,mode=700,uid=$(id -u nobody) tmpfs {SMALL_DISK} && exec \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &mount, "sh"]);
    command.args(AS_NOBODY).arg("sh");
    let mut server = Server::start_by(command, "127.0.0.1", port, &script);
    server.wait_until_it_listens();
    Some(server)
}

const SMALL_DISK: &str = "/mnt";
const AS_NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=nobody",
    "--regid=nogroup",
    "--clear-groups",
];

impl Server {
    pub(crate) fn small_disk(&self) -> SmallDisk {
        SmallDisk {
            inside: SMALL_DISK.into(),
            outside: format!("/proc/{}/root{SMALL_DISK}", self.pid).into(),
        }
    }
}

/// A standby that knows what the server knows at this moment, and takes over: of what is written
/// to the server from now on it never heard.
pub(crate) fn standby_of(server: &Server, address: &'static str, port: u16) -> Option<Server> {
    let options = "-c fsync=off -c log_statement=all";
    started(address, port, options, Some(server.address()))
}

fn started(
    address: &'static str,
    port: u16,
    options: &str,
    from: Option<std::net::SocketAddr>,
) -> Option<Server> {
    let script = script(address, port, options, from)?;
    let mut server = Server::start(address, port, &script);
    server.wait_until_it_listens();
    Some(server)
}

/// What prepares and runs one.
fn script(
    address: &str,
    port: u16,
    options: &str,
    from: Option<std::net::SocketAddr>,
) -> Option<String> {
    let Some(bin) = programs() else {
        skipped("postgresql-15");
        return None;
    };
    let bin = bin.display().to_string();
    let data = match from {
        None => format!(
            "'{bin}/initdb' --no-sync --username={USER} --pwfile=\"$1/password\" \
             --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 --pgdata=\"$1/data\""
        ),
        Some(from) => format!(
            "PGPASSWORD='{PASSWORD}' '{bin}/pg_basebackup' --no-sync --checkpoint=fast \
             -h {} -p {} -U {USER} -D \"$1/data\"",
            from.ip(),
            from.port()
        ),
    };
    // TLS is offered and not demanded, by a certificate that says nothing.
    Some(format!(
        r#"
prepare() {{
    printf %s '{PASSWORD}' >"$1/password"
    {data}
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj /CN=db.example.com -addext subjectAltName=DNS:db.example.com \
        -addext basicConstraints=critical,CA:FALSE \
        -keyout "$1/data/server.key" -out "$1/data/server.crt"
    chmod 600 "$1/data/server.key"
    cp "$1/data/server.crt" "$1/server.crt"
    chmod 755 "$1"
}}
run() {{
    data=$1/data
    shift
    exec '{bin}/postgres' -D "$data" -c listen_addresses={address} -c port={port} \
        -c unix_socket_directories= -c ssl=on -c max_connections=200 \
        -c log_line_prefix='%d %p ' {options} "$@"
}}
"#
    ))
}

/// A pooler in transaction mode before a server.
pub(crate) fn pooler(server: u16) -> Option<Server> {
    if !Path::new(POOLER).exists() {
        skipped("pgbouncer");
        return None;
    }
    let port = free_port();
    // Few connections behind, so that clients really share them.
    let script = format!(
        r#"
prepare() {{
    printf '"{USER}" "{PASSWORD}"\n' >"$1/users"
    cat >"$1/pgbouncer.ini" <<INI
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $1/users
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
INI
}}
run() {{ exec {POOLER} "$1/pgbouncer.ini"; }}
"#
    );
    let mut pooler = Server::start("127.0.0.1", port, &script);
    pooler.wait_until_it_listens();
    Some(pooler)
}

impl Server {
    /// The certificate it shows.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    /// Makes an empty database and gives its name.
    pub(crate) fn database(&self) -> String {
        static COUNT: Mutex<u32> = Mutex::new(0);
        // One at a time: each is a copy of the same template.
        let mut count = COUNT.lock().unwrap();
        *count += 1;
        let name = format!("test{count}");
        self.psql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// What a statement of the owner's answers, rows in lines.
    pub(crate) fn psql(&self, database: &str, sql: &str) -> String {
        let bin = programs().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let asked = Command::new(bin.join("psql"))
                .args(["-h", self.address, "-p", &self.port.to_string(), "-U", USER])
                .args(["-d", database, "-v", "ON_ERROR_STOP=1", "-Atqc", sql])
                .env("PGPASSWORD", PASSWORD)
                .output()
                .unwrap();
            if asked.status.success() {
                return String::from_utf8(asked.stdout).unwrap().trim().to_owned();
            }
            let said = String::from_utf8_lossy(&asked.stderr).into_owned();
            // It listens a moment before it lets anybody in.
            let starts = ["starting up", "not yet accepting"];
            assert!(
                starts.iter().any(|it| said.contains(it)) && Instant::now() < until,
                "{sql}: {said}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The server that most tests share, and the pooler before it. The process ends them when it ends.
pub(crate) fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    SHARED.get_or_init(server).as_ref()
}

pub(crate) fn shared_pooler() -> Option<&'static Server> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    let server = shared()?;
    SHARED.get_or_init(|| pooler(server.port)).as_ref()
}

/// Says so past the capture of a test's output; fails where skipping is forbidden.
fn skipped(package: &str) {
    let _ = writeln!(
        std::io::stderr(),
        "\nSKIPPED, NOT TESTED: {package} is not installed (tests/setup/postgres.sh installs it)"
    );
    let forbidden = std::env::var_os(NO_SKIP).is_some();
    assert!(
        !forbidden,
        "{package} is missing, and {NO_SKIP} forbids skipping"
    );
}
