<#
.SYNOPSIS
    Reports this Windows session host to sessionguard and carries out the commands that are allowed.

.DESCRIPTION
    Every few seconds, and within a second of a logon, disconnect, reconnect or logoff, this script
    tells the broker who is logged on to this host and in which state, how loaded the host is, whether
    RDP answers, and which RemoteApps are published. The broker's answer may hold commands; those named
    in agent.json under "commands" are carried out, each once, and no others.

    It is started at boot, as SYSTEM, by the scheduled task that install.ps1 makes. It opens no port.

.PARAMETER Config
    The settings, as install.ps1 writes them.

.PARAMETER Once
    Report once and stop. The answer is shown. For trying things out.

.PARAMETER PrintOnly
    Print the report and send nothing. Needs no key and no broker.

.NOTES
    Windows PowerShell 5.1, part of Windows Server 2016 and later; nothing else is needed.
#>
[CmdletBinding()]
param(
    [string] $Config = "$env:ProgramData\sessionguard\agent.json",
    [switch] $Once,
    [switch] $PrintOnly
)

Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'

# ---------------------------------------------------------------------------------------------------
# Windows' own list of sessions. "query session" prints the same, but in the language of the system.
# ---------------------------------------------------------------------------------------------------

$WtsSource = @'
using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.Runtime.InteropServices;

namespace SessionGuard
{
    public sealed class WtsSession
    {
        public int Id;
        public string State;
        public string User;
        public string Domain;
        public string ClientName;
        public DateTime? LogonAt;
        public DateTime? ConnectAt;
        public DateTime? DisconnectedSince;
        public long? IdleSeconds;
    }

    public static class Wts
    {
        // WTS_CONNECTSTATE_CLASS, in its order.
        private static readonly string[] States = {
            "Active", "Connected", "ConnectQuery", "Shadow", "Disconnected",
            "Idle", "Listen", "Reset", "Down", "Init"
        };

        private const int WtsUserName = 5, WtsDomainName = 7, WtsClientName = 10, WtsSessionInfo = 24;
        private const int Disconnected = 4;

        [StructLayout(LayoutKind.Sequential)]
        private struct SessionInfo
        {
            public int Id;
            public IntPtr StationName;
            public int State;
        }

        // WTSINFOW: fixed texts and times as 100 ns since 1601.
        [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Unicode)]
        private struct WtsInfo
        {
            public int State;
            public int Id;
            public int IncomingBytes, OutgoingBytes, IncomingFrames, OutgoingFrames;
            public int IncomingCompressed, OutgoingCompressed;
            [MarshalAs(UnmanagedType.ByValTStr, SizeConst = 32)] public string StationName;
            [MarshalAs(UnmanagedType.ByValTStr, SizeConst = 17)] public string Domain;
            [MarshalAs(UnmanagedType.ByValTStr, SizeConst = 21)] public string User;
            public long ConnectTime, DisconnectTime, LastInputTime, LogonTime, CurrentTime;
        }

        [DllImport("wtsapi32.dll", SetLastError = true)]
        private static extern bool WTSEnumerateSessionsW(IntPtr server, int reserved, int version,
            out IntPtr sessions, out int count);

        [DllImport("wtsapi32.dll", SetLastError = true)]
        private static extern bool WTSQuerySessionInformationW(IntPtr server, int session, int what,
            out IntPtr buffer, out int bytes);

        [DllImport("wtsapi32.dll")]
        private static extern void WTSFreeMemory(IntPtr memory);

        [DllImport("wtsapi32.dll", SetLastError = true)]
        private static extern bool WTSDisconnectSession(IntPtr server, int session, bool wait);

        [DllImport("wtsapi32.dll", SetLastError = true)]
        private static extern bool WTSLogoffSession(IntPtr server, int session, bool wait);

        [DllImport("wtsapi32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        private static extern bool WTSSendMessageW(IntPtr server, int session, string title, int titleBytes,
            string text, int textBytes, int style, int timeoutSeconds, out int response, bool wait);

        public static List<WtsSession> Sessions()
        {
            var found = new List<WtsSession>();
            IntPtr list;
            int count;
            if (!WTSEnumerateSessionsW(IntPtr.Zero, 0, 1, out list, out count))
            {
                throw new Win32Exception(Marshal.GetLastWin32Error());
            }
            try
            {
                int size = Marshal.SizeOf(typeof(SessionInfo));
                for (int i = 0; i < count; i++)
                {
                    var info = (SessionInfo)Marshal.PtrToStructure(
                        new IntPtr(list.ToInt64() + (long)i * size), typeof(SessionInfo));
                    var session = new WtsSession();
                    session.Id = info.Id;
                    session.State = info.State >= 0 && info.State < States.Length ? States[info.State] : "Unknown";
                    session.User = Text(info.Id, WtsUserName);
                    session.Domain = Text(info.Id, WtsDomainName);
                    session.ClientName = Text(info.Id, WtsClientName);
                    Times(session, info.State);
                    found.Add(session);
                }
            }
            finally
            {
                WTSFreeMemory(list);
            }
            return found;
        }

        private static string Text(int session, int what)
        {
            IntPtr buffer;
            int bytes;
            // A session may end while it is looked at: then it has no such text.
            if (!WTSQuerySessionInformationW(IntPtr.Zero, session, what, out buffer, out bytes))
            {
                return "";
            }
            try
            {
                return Marshal.PtrToStringUni(buffer) ?? "";
            }
            finally
            {
                WTSFreeMemory(buffer);
            }
        }

        private static void Times(WtsSession session, int state)
        {
            IntPtr buffer;
            int bytes;
            if (!WTSQuerySessionInformationW(IntPtr.Zero, session.Id, WtsSessionInfo, out buffer, out bytes))
            {
                return;
            }
            try
            {
                if (bytes < Marshal.SizeOf(typeof(WtsInfo)))
                {
                    return;
                }
                var info = (WtsInfo)Marshal.PtrToStructure(buffer, typeof(WtsInfo));
                session.LogonAt = Moment(info.LogonTime);
                session.ConnectAt = Moment(info.ConnectTime);
                if (state == Disconnected)
                {
                    session.DisconnectedSince = Moment(info.DisconnectTime);
                }
                if (info.LastInputTime > 0 && info.CurrentTime >= info.LastInputTime)
                {
                    session.IdleSeconds = (info.CurrentTime - info.LastInputTime) / TimeSpan.TicksPerSecond;
                }
            }
            finally
            {
                WTSFreeMemory(buffer);
            }
        }

        private static DateTime? Moment(long fileTime)
        {
            return fileTime > 0 ? DateTime.FromFileTimeUtc(fileTime) : (DateTime?)null;
        }

        public static void Disconnect(int session)
        {
            Check(WTSDisconnectSession(IntPtr.Zero, session, false));
        }

        public static void Logoff(int session)
        {
            Check(WTSLogoffSession(IntPtr.Zero, session, false));
        }

        public static void Message(int session, string title, string text)
        {
            int response;
            // Lengths are in bytes. Style: an OK button and the sign for information. No waiting.
            Check(WTSSendMessageW(IntPtr.Zero, session, title, title.Length * 2, text, text.Length * 2,
                0x40, 0, out response, false));
        }

        private static void Check(bool done)
        {
            if (!done)
            {
                throw new Win32Exception(Marshal.GetLastWin32Error());
            }
        }
    }
}
'@

# ---------------------------------------------------------------------------------------------------
# What this host is like. Each of these may fail alone; the report then leaves that part out.
# ---------------------------------------------------------------------------------------------------

function Write-AgentLog([string] $Text) {
    $line = '{0} {1}' -f [DateTime]::UtcNow.ToString('yyyy-MM-ddTHH:mm:ssZ'), $Text
    try {
        if ((Test-Path -LiteralPath $script:LogFile) -and (Get-Item -LiteralPath $script:LogFile).Length -gt 5MB) {
            Move-Item -LiteralPath $script:LogFile -Destination "$script:LogFile.old" -Force
        }
        Add-Content -LiteralPath $script:LogFile -Value $line -Encoding UTF8
    } catch {
        # A full disk must not end the reports.
        Write-Verbose $line
    }
}

function ConvertTo-Moment($Time) {
    if ($null -eq $Time) { return $null }
    ([DateTime] $Time).ToUniversalTime().ToString('yyyy-MM-ddTHH:mm:ss.fffZ', [Globalization.CultureInfo]::InvariantCulture)
}

# Leaves out what is not known: an absent figure is honest, a zero is not.
function Remove-Unknown([System.Collections.IDictionary] $Fields) {
    $known = [ordered] @{}
    foreach ($name in $Fields.Keys) {
        if ($null -ne $Fields[$name] -and '' -ne $Fields[$name]) { $known[$name] = $Fields[$name] }
    }
    $known
}

# Only sessions with a user count: Windows also lists listeners and an empty console.
function Get-HostSession {
    foreach ($session in [SessionGuard.Wts]::Sessions()) {
        if ($session.User -eq '') { continue }
        Remove-Unknown ([ordered] @{
            id                 = $session.Id
            state              = $session.State
            user               = $session.User
            domain             = $session.Domain
            logon_at           = ConvertTo-Moment $session.LogonAt
            connect_at         = ConvertTo-Moment $session.ConnectAt
            disconnected_since = ConvertTo-Moment $session.DisconnectedSince
            idle_seconds       = $session.IdleSeconds
            client_name        = $session.ClientName
        })
    }
}

function Get-HostFigure {
    $os = Get-CimInstance -ClassName Win32_OperatingSystem
    # The load over all processors; the counter's class name does not depend on the language. Counters
    # break now and then (lodctr /R mends them): then the load is not known.
    $cpu = $null
    try { $cpu = Get-CimInstance -ClassName Win32_PerfFormattedData_PerfOS_Processor -Filter "Name='_Total'" }
    catch { Write-Verbose "processor counter: $($_.Exception.Message)" }
    $disk = Get-CimInstance -ClassName Win32_LogicalDisk -Filter ("DeviceID='{0}'" -f $env:SystemDrive)
    Remove-Unknown ([ordered] @{
        hostname         = $env:COMPUTERNAME
        os               = $os.Caption
        uptime_seconds   = [long] ((Get-Date) - $os.LastBootUpTime).TotalSeconds
        memory_total     = [long] $os.TotalVisibleMemorySize * 1024
        memory_available = [long] $os.FreePhysicalMemory * 1024
        cpu_percent      = if ($cpu) { [double] $cpu.PercentProcessorTime } else { $null }
        disk_total       = if ($disk) { [long] $disk.Size } else { $null }
        disk_free        = if ($disk) { [long] $disk.FreeSpace } else { $null }
    })
}

# A name for this start of the system: kept in a registry key that Windows forgets when it shuts down.
function Get-BootId {
    $writable = [Microsoft.Win32.RegistryKeyPermissionCheck]::ReadWriteSubTree
    $forgotten = [Microsoft.Win32.RegistryOptions]::Volatile
    $key = [Microsoft.Win32.Registry]::LocalMachine.CreateSubKey('SOFTWARE\sessionguard-agent-boot', $writable, $forgotten)
    try {
        $id = [string] $key.GetValue('BootId', '')
        if ($id -eq '') {
            $id = [Guid]::NewGuid().ToString()
            $key.SetValue('BootId', $id)
        }
        $id
    } finally {
        $key.Close()
    }
}

function Get-RdpPort {
    $key = 'HKLM:\SYSTEM\CurrentControlSet\Control\Terminal Server\WinStations\RDP-Tcp'
    $port = (Get-ItemProperty -LiteralPath $key -ErrorAction SilentlyContinue)
    if ($port -and $port.PSObject.Properties['PortNumber']) { [int] $port.PortNumber } else { 3389 }
}

# Asks for an RDP connection and hangs up: a port that is open is not yet RDP that answers.
function Test-RdpListener([int] $Port) {
    $client = New-Object System.Net.Sockets.TcpClient
    try {
        $connecting = $client.BeginConnect('127.0.0.1', $Port, $null, $null)
        if (-not $connecting.AsyncWaitHandle.WaitOne(2000)) { return "port $Port does not answer" }
        $client.EndConnect($connecting)
        $client.ReceiveTimeout = 2000
        $stream = $client.GetStream()
        [byte[]] $request = 3, 0, 0, 19, 14, 0xE0, 0, 0, 0, 0, 0, 1, 0, 8, 0, 3, 0, 0, 0
        $stream.Write($request, 0, $request.Length)
        $answer = New-Object byte[] 6
        $got = 0
        while ($got -lt 6) {
            $read = $stream.Read($answer, $got, 6 - $got)
            if ($read -le 0) { return "port $Port hangs up" }
            $got += $read
        }
        if ($answer[0] -eq 3 -and ($answer[5] -band 0xF0) -eq 0xD0) { return '' }
        return "port $Port answers, but not as RDP does"
    } catch {
        return "port ${Port}: $($_.Exception.GetBaseException().Message)"
    } finally {
        $client.Close()
    }
}

# RemoteApps that are published on this host, and whether their programs are there.
function Get-HostRemoteApp {
    $list = 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Terminal Server\TSAppAllowList\Applications'
    if (-not (Test-Path -LiteralPath $list)) { return }
    foreach ($key in Get-ChildItem -LiteralPath $list) {
        $app = Get-ItemProperty -LiteralPath $key.PSPath
        $path = if ($app.PSObject.Properties['Path']) { [Environment]::ExpandEnvironmentVariables([string] $app.Path) } else { '' }
        $exists = $path -ne '' -and (Test-Path -LiteralPath $path -PathType Leaf)
        [ordered] @{
            alias       = [string] $key.PSChildName
            published   = $true
            path_exists = [bool] $exists
            in_sync     = [bool] $exists
        }
    }
}

function Get-HostHealth($Figures, [string] $ListenerFault, [bool] $ProfileStoreOk) {
    # 100, less what is wrong: as `sessionguard agent` counts on Linux.
    $score = 100
    $checks = @()
    $note = {
        param($Name, $Less, $Message)
        [ordered] @{ name = $Name; ok = ($Less -eq 0); message = [string] $Message }
    }
    if ($ListenerFault) { $score -= 100; $checks += & $note 'rdp_listener' 100 $ListenerFault }
    else { $checks += & $note 'rdp_listener' 0 'answers' }
    if ($ProfileStoreOk) { $checks += & $note 'profile_store' 0 'reached' }
    else { $score -= 60; $checks += & $note 'profile_store' 60 'the profile store does not answer' }
    foreach ($room in @(
            @('memory', 'memory_available', 'memory_total', 5, 10),
            @('disk', 'disk_free', 'disk_total', 1, 5))) {
        $name, $left, $total, $hardly, $little = $room
        if (-not ($Figures.Contains($left) -and $Figures.Contains($total) -and $Figures[$total] -gt 0)) {
            $checks += & $note $name 0 'unknown'
            continue
        }
        $percent = [math]::Floor(100.0 * $Figures[$left] / $Figures[$total])
        $less = if ($percent -lt $hardly) { 60 } elseif ($percent -lt $little) { 30 } else { 0 }
        $score -= $less
        $checks += & $note $name $less "$percent % left"
    }
    [ordered] @{
        score            = [math]::Max(0, $score)
        rdp_listener_ok  = ($ListenerFault -eq '')
        profile_store_ok = $ProfileStoreOk
        checks           = @($checks)
    }
}

# ---------------------------------------------------------------------------------------------------
# The wire. Names and shapes are the broker's; nothing else is sent.
# ---------------------------------------------------------------------------------------------------

function New-Heartbeat([string] $AgentId, [string] $BootId, [long] $Sequence, $Figures, $Health, $Sessions, $RemoteApps, $Results) {
    [ordered] @{
        protocol_version = 4
        agent_id         = $AgentId
        boot_id          = $BootId
        seq              = $Sequence
        server           = $Figures
        health           = $Health
        sessions         = @($Sessions)
        remote_apps      = @($RemoteApps)
        command_results  = @($Results)
        time             = ConvertTo-Moment ([DateTime]::UtcNow)
    }
}

function ConvertTo-Wire($Heartbeat) {
    ConvertTo-Json -InputObject $Heartbeat -Depth 6 -Compress
}

function Send-Report([string] $Server, [string] $Path, [string] $Json, [hashtable] $Headers) {
    $request = [System.Net.HttpWebRequest] [System.Net.WebRequest]::Create($Server.TrimEnd('/') + $Path)
    $request.Method = 'POST'
    $request.ContentType = 'application/json'
    $request.UserAgent = 'sessionguard-agent-windows/1'
    $request.Timeout = 8000
    $request.ReadWriteTimeout = 8000
    $request.AllowAutoRedirect = $false
    $request.Proxy = $null
    foreach ($name in $Headers.Keys) { $request.Headers[$name] = $Headers[$name] }
    # In UTF-8 whatever the system's own encoding is: names may hold any letter.
    $bytes = [Text.Encoding]::UTF8.GetBytes($Json)
    $request.ContentLength = $bytes.Length
    try {
        $stream = $request.GetRequestStream()
        $stream.Write($bytes, 0, $bytes.Length)
        $stream.Close()
        $response = $request.GetResponse()
    } catch {
        # A refusal stands somewhere inside of what .NET throws.
        $fault = $_.Exception
        while ($fault -isnot [System.Net.WebException] -and $null -ne $fault.InnerException) { $fault = $fault.InnerException }
        if ($fault -isnot [System.Net.WebException] -or $null -eq $fault.Response) { throw }
        $status = [int] $fault.Response.StatusCode
        $fault.Response.Close()
        throw (New-Object System.InvalidOperationException "the broker answers $status")
    }
    $reader = New-Object System.IO.StreamReader ($response.GetResponseStream(), [Text.Encoding]::UTF8)
    try { $text = $reader.ReadToEnd() } finally { $reader.Close(); $response.Close() }
    if ($text.Trim() -eq '') { return $null }
    ConvertFrom-Json -InputObject $text
}

function Get-Field($Object, [string] $Name) {
    if ($null -ne $Object -and $Object.PSObject.Properties[$Name]) { $Object.PSObject.Properties[$Name].Value } else { $null }
}

# ConvertFrom-Json of newer PowerShell makes a date of it by itself; 5.1 leaves it a text.
function ConvertFrom-Moment($Value) {
    if ($null -eq $Value) { return $null }
    if ($Value -is [DateTime]) { return $Value.ToUniversalTime() }
    $time = [DateTimeOffset]::MinValue
    $style = [Globalization.DateTimeStyles]::AssumeUniversal
    if ([DateTimeOffset]::TryParse([string] $Value, [Globalization.CultureInfo]::InvariantCulture, $style, [ref] $time)) { $time.UtcDateTime } else { $null }
}

# ---------------------------------------------------------------------------------------------------
# Commands
# ---------------------------------------------------------------------------------------------------

# Why a command is not carried out; nothing where it is.
function Get-Objection($Command, [string[]] $Allowed, [DateTime] $Now) {
    $kind = [string] (Get-Field $Command 'type')
    if (@('message', 'disconnect', 'logoff', 'restart_server') -cnotcontains $kind) { return 'this agent knows no such command' }
    if ($Allowed -cnotcontains $kind) { return 'not among the commands this host''s agent.json allows' }
    $expiry = ConvertFrom-Moment (Get-Field $Command 'expires_at')
    if ($null -eq $expiry) { return 'it names no time after which it must not be carried out' }
    if ($expiry -le $Now) { return 'it came after its time' }
    if ($kind -eq 'message' -and ([string] (Get-Field $Command 'message')).Trim() -eq '') { return 'it brings no text' }
    if ($kind -ne 'restart_server') {
        $named = @('session_id', 'user', 'domain', 'state') | Where-Object { $null -ne (Get-Field $Command $_) }
        if (-not $named -and (Get-Field $Command 'all') -ne $true) { return 'it names no session' }
    }
    $null
}

# Everything that a command names must fit. Nothing named is nobody, not everybody.
function Test-Meant($Command, $Session) {
    $id = Get-Field $Command 'session_id'
    if ($null -ne $id -and [string] $id -ne [string] $Session['id']) { return $false }
    foreach ($part in 'user', 'domain', 'state') {
        $wanted = [string] (Get-Field $Command $part)
        if ($wanted -eq '') { continue }
        $has = if ($Session.Contains($part)) { [string] $Session[$part] } else { '' }
        if ($part -eq 'domain' -and $has -eq '') { continue }
        if ($wanted -ne $has) { return $false }
    }
    $true
}

function Invoke-AgentCommand($Command, $Sessions) {
    $kind = [string] (Get-Field $Command 'type')
    if ($kind -eq 'restart_server') {
        & "$env:SystemRoot\System32\shutdown.exe" /r /t 5 /d p:0:0 /c 'Restart asked for by the connection broker'
        if ($LASTEXITCODE -ne 0) { throw "shutdown.exe ends with $LASTEXITCODE" }
        return 'the host restarts'
    }
    $meant = @($Sessions | Where-Object { Test-Meant $Command $_ })
    if ($meant.Count -eq 0) { throw 'there is no such session' }
    $faults = @()
    foreach ($session in $meant) {
        try {
            switch ($kind) {
                'message' { [SessionGuard.Wts]::Message($session['id'], 'Message from your administrator', [string] (Get-Field $Command 'message')) }
                'disconnect' { [SessionGuard.Wts]::Disconnect($session['id']) }
                'logoff' { [SessionGuard.Wts]::Logoff($session['id']) }
            }
        } catch {
            $faults += 'session {0} of {1}: {2}' -f $session['id'], $session['user'], $_.Exception.GetBaseException().Message
        }
    }
    if ($faults.Count -gt 0) { throw ('{0} of {1} failed: {2}' -f $faults.Count, $meant.Count, ($faults -join '; ')) }
    '{0} sessions' -f $meant.Count
}

# ---------------------------------------------------------------------------------------------------
# What must outlive the script: commands that were begun, and results not yet acknowledged.
# ---------------------------------------------------------------------------------------------------

function Read-AgentState {
    $state = @{ commands = @(); results = @() }
    try {
        $kept = ConvertFrom-Json -InputObject ([IO.File]::ReadAllText($script:StateFile))
        $state.commands = @(Get-Field $kept 'commands' | Where-Object { $_ })
        foreach ($result in @(Get-Field $kept 'results' | Where-Object { $_ })) {
            $state.results += [ordered] @{ id = [string] $result.id; type = [string] $result.type; ok = [bool] $result.ok
                message = [string] $result.message; finished_at = ConvertTo-Moment (ConvertFrom-Moment $result.finished_at) }
        }
    } catch {
        # None yet, or rubbish after a power cut: begin anew.
        Write-Verbose "no state: $($_.Exception.Message)"
    }
    $state
}

function Write-AgentState($State) {
    $State.commands = @($State.commands | Select-Object -Last 1000)
    $State.results = @($State.results | Select-Object -Last 1000)
    $json = ConvertTo-Json -InputObject ([ordered] @{ commands = @($State.commands); results = @($State.results) }) -Depth 4
    $draft = "$script:StateFile.new"
    [IO.File]::WriteAllText($draft, $json)
    # A plain $null would reach .NET as an empty text here, which is no name of a file.
    if (Test-Path -LiteralPath $script:StateFile) { [IO.File]::Replace($draft, $script:StateFile, [NullString]::Value) }
    else { [IO.File]::Move($draft, $script:StateFile) }
}

function Receive-Answer($Answer, $State, $Sessions, [string[]] $Allowed) {
    $now = ConvertFrom-Moment (Get-Field $Answer 'server_time')
    if ($null -eq $now) { $now = [DateTime]::UtcNow }
    foreach ($command in @(Get-Field $Answer 'commands' | Where-Object { $_ })) {
        $id = [string] (Get-Field $command 'id')
        if ($id -eq '' -or $id.Length -gt 200 -or $State.commands -ccontains $id) { continue }
        $kind = [string] (Get-Field $command 'type')
        $ok = $false
        $message = Get-Objection $command $Allowed $now
        # Written down before it is begun, so that it is never begun twice.
        $State.commands += $id
        Write-AgentState $State
        if ($null -eq $message) {
            Write-AgentLog "command $id ($kind) begins"
            try { $message = Invoke-AgentCommand $command $Sessions; $ok = $true }
            catch { $message = $_.Exception.GetBaseException().Message }
        }
        Write-AgentLog "command $id ($kind): $(if ($ok) { 'done' } else { 'not done' }): $message"
        $State.results += [ordered] @{ id = $id; type = $kind; ok = $ok; message = [string] $message; finished_at = ConvertTo-Moment ([DateTime]::UtcNow) }
        Write-AgentState $State
    }
}

# ---------------------------------------------------------------------------------------------------
# The loop
# ---------------------------------------------------------------------------------------------------

function Read-AgentConfig([string] $Path) {
    $read = ConvertFrom-Json -InputObject ([IO.File]::ReadAllText($Path))
    $settings = @{
        Servers      = @(Get-Field $read 'server' | Where-Object { $_ })
        Interval     = Get-Field $read 'interval_seconds'
        Commands     = @(Get-Field $read 'commands' | Where-Object { $_ })
        ProfileStore = [string] (Get-Field $read 'profile_store')
        Insecure     = (Get-Field $read 'insecure') -eq $true
    }
    if ($settings.Servers.Count -eq 0) { throw "${Path}: name the broker's API under ""server""" }
    foreach ($server in $settings.Servers) { Assert-Server $server $settings.Insecure }
    if ($null -eq $settings.Interval) { $settings.Interval = 10 }
    if ($settings.Interval -lt 1 -or $settings.Interval -gt 300) { throw "${Path}: interval_seconds must be from 1 to 300" }
    if ($settings.ProfileStore -eq '') { $settings.ProfileStore = "$env:SystemDrive\Users" }
    $settings
}

# The key must not cross a network in the clear.
function Assert-Server([string] $Server, [bool] $Insecure) {
    $uri = New-Object Uri $Server
    if ($uri.Scheme -eq 'https' -or ($uri.Scheme -eq 'http' -and ($uri.IsLoopback -or $Insecure))) { return }
    throw "${Server}: use https, or set insecure where the network is trusted"
}

# Who is here and in which state, as one text: what is compared to notice a change.
function Get-Fingerprint($Sessions) {
    (@($Sessions) | ForEach-Object { '{0}|{1}|{2}|{3}' -f $_['id'], $_['state'], $_['user'], $_['connect_at'] }) -join "`n"
}

function New-Report([string] $AgentId, $Settings, $State, $Sessions) {
    try { $figures = Get-HostFigure } catch {
        Write-AgentLog "figures: $($_.Exception.Message)"
        $figures = [ordered] @{ hostname = $env:COMPUTERNAME; os = 'Windows' }
    }
    $fault = Test-RdpListener (Get-RdpPort)
    $health = Get-HostHealth $figures $fault (Test-Path -LiteralPath $Settings.ProfileStore)
    $uptime = [Diagnostics.Stopwatch]::GetTimestamp() / [Diagnostics.Stopwatch]::Frequency
    # Counts hundredths of a second since the start of the system, so it grows over every restart of this script.
    $script:Sequence = [math]::Max($script:Sequence + 1, [long] ($uptime * 100))
    New-Heartbeat $AgentId $script:BootId $script:Sequence $figures $health $Sessions @(Get-HostRemoteApp) $State.results
}

function Start-Agent {
    $settings = Read-AgentConfig $Config
    $key = ConvertFrom-Json -InputObject ([IO.File]::ReadAllText((Join-Path $script:Folder 'agent.key')))
    $headers = @{ 'X-Agent-ID' = [string] $key.agent_id; 'Authorization' = "Bearer $($key.token)" }
    [Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
    $state = Read-AgentState
    $random = New-Object Random
    $told = $null
    $failures = 0
    $due = [DateTime]::MinValue
    $notBefore = [DateTime]::MinValue
    Write-AgentLog "started as $($key.agent_id), reports to $($settings.Servers -join ', ')"
    while ($true) {
        $sessions = @(Get-HostSession)
        $print = Get-Fingerprint $sessions
        $now = [DateTime]::UtcNow
        if ($now -ge $notBefore -and ($now -ge $due -or $print -cne $told -or $state.results.Count -gt 0)) {
            $sent = $state.results.Count
            $json = ConvertTo-Wire (New-Report $key.agent_id $settings $state $sessions)
            try {
                $answer = $null
                foreach ($server in $settings.Servers) {
                    try { $answer = Send-Report $server '/api/v1/agents/heartbeat' $json $headers; break }
                    catch { if ($server -eq $settings.Servers[-1] -or $_.Exception.Message -match 'answers 4') { throw } }
                }
                if ($failures -gt 0 -or $null -eq $told) { Write-AgentLog "heartbeat accepted, $($sessions.Count) sessions" }
                $failures = 0
                $told = $print
                $due = $now.AddSeconds($settings.Interval * (0.75 + $random.NextDouble() / 4))
                if ($sent -gt 0) { $state.results = @($state.results | Select-Object -Skip $sent); Write-AgentState $state }
                Receive-Answer $answer $state $sessions $settings.Commands
                if ($Once) { ConvertTo-Json -InputObject $answer -Depth 6; return }
            } catch {
                $failures++
                $fault = $_.Exception.GetBaseException().Message
                $wait = [math]::Min(20, [math]::Pow(2, [math]::Min(8, $failures - 1))) * (0.75 + $random.NextDouble() / 4)
                if ($fault -match 'answers 40[13]') {
                    $wait = 60
                    $fault += ': the broker does not accept this host''s key: run install.ps1 with a new enrollment token'
                }
                Write-AgentLog ('heartbeat failed: {0}; again in {1:0} s' -f $fault, $wait)
                $notBefore = [DateTime]::UtcNow.AddSeconds($wait)
                if ($Once) { throw }
            }
        }
        Start-Sleep -Seconds 1
    }
}

# Loaded by a test or by install.ps1 for its functions alone?
if ($MyInvocation.InvocationName -eq '.') { return }

$script:Folder = Split-Path -Parent $Config
$script:LogFile = Join-Path $script:Folder 'agent.log'
$script:StateFile = Join-Path $script:Folder 'state.json'
$script:Sequence = [long] 0
$script:BootId = Get-BootId
Add-Type -TypeDefinition $WtsSource -Language CSharp

if ($PrintOnly) {
    $nothing = @{ commands = @(); results = @() }
    $here = @{ ProfileStore = "$env:SystemDrive\Users" }
    ConvertTo-Json -InputObject (New-Report 'print-only' $here $nothing @(Get-HostSession)) -Depth 6
    return
}
Start-Agent
