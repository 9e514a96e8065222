<#
.SYNOPSIS
    Installs the sessionguard agent on this Windows session host, or removes it.

.DESCRIPTION
    Run it in an elevated Windows PowerShell, in the folder that also holds sessionguard-agent.ps1:

        .\install.ps1 -Server https://broker.example:9822 -TokenFile C:\token.txt
        .\install.ps1 -Server https://broker.example:9822 -TokenFile C:\token.txt -Commands message,logoff
        .\install.ps1 -Uninstall

    What it does, in this order, each step again without harm:
      1. makes C:\ProgramData\sessionguard, which only Administrators and SYSTEM may open;
      2. asks the broker for this host's key with the enrollment token, and keeps it in agent.key there;
      3. writes agent.json there, and copies the agent to C:\Program Files\sessionguard;
      4. makes the scheduled task "sessionguard agent", which runs the agent as SYSTEM from start-up on,
         and starts it.
    It changes nothing else: no port is opened, no service, no policy, no certificate is installed.

.PARAMETER Server
    The broker's API; several are tried in the order given.

.PARAMETER TokenFile
    A file with the enrollment token. Left out, the host keeps the key it has: a new version is installed.

.PARAMETER Commands
    What the broker may have done here: message, disconnect, logoff, restart_server. Nothing by default.

.PARAMETER ProfileStore
    The folder or share of the users' profiles, where it is not C:\Users. A share must be readable for
    this computer's account.

.PARAMETER Insecure
    Allow http to another machine. The key then crosses the network in the clear.
#>
[CmdletBinding(DefaultParameterSetName = 'Install')]
param(
    [Parameter(Mandatory, ParameterSetName = 'Install')] [string[]] $Server,
    [Parameter(ParameterSetName = 'Install')] [string] $TokenFile,
    [Parameter(ParameterSetName = 'Install')] [ValidateSet('message', 'disconnect', 'logoff', 'restart_server')] [string[]] $Commands = @(),
    [Parameter(ParameterSetName = 'Install')] [ValidateRange(1, 300)] [int] $IntervalSeconds = 10,
    [Parameter(ParameterSetName = 'Install')] [string] $ProfileStore = '',
    [Parameter(ParameterSetName = 'Install')] [string] $Name = $env:COMPUTERNAME,
    [Parameter(ParameterSetName = 'Install')] [switch] $Insecure,
    [Parameter(Mandatory, ParameterSetName = 'Uninstall')] [switch] $Uninstall
)

Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'

$task = 'sessionguard agent'
$data = Join-Path $env:ProgramData 'sessionguard'
$program = Join-Path $env:ProgramFiles 'sessionguard'
$keyFile = Join-Path $data 'agent.key'

$me = New-Object Security.Principal.WindowsPrincipal ([Security.Principal.WindowsIdentity]::GetCurrent())
if (-not $me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
    throw 'run this in an elevated PowerShell (Run as administrator)'
}

function Stop-AgentTask {
    if (Get-ScheduledTask -TaskName $task -ErrorAction SilentlyContinue) {
        Stop-ScheduledTask -TaskName $task
        Unregister-ScheduledTask -TaskName $task -Confirm:$false
    }
}

if ($Uninstall) {
    Stop-AgentTask
    foreach ($folder in $program, $data) {
        if (Test-Path -LiteralPath $folder) { Remove-Item -LiteralPath $folder -Recurse -Force }
    }
    Write-Output 'The agent is removed. Revoke this host''s key at the broker.'
    return
}

# The agent's own functions speak to the broker here, too.
. (Join-Path $PSScriptRoot 'sessionguard-agent.ps1')
[Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12
foreach ($one in $Server) { Assert-Server $one $Insecure.IsPresent }

# 1. A folder for Administrators (S-1-5-32-544) and SYSTEM (S-1-5-18) alone, by number since their names
#    are translated. Before anything secret is in it.
if (Test-Path -LiteralPath $data) {
    # Everybody may make folders in ProgramData: one that somebody else made first is not ours to fill.
    $owner = (Get-Acl -LiteralPath $data).GetOwner([Security.Principal.SecurityIdentifier]).Value
    if (@('S-1-5-32-544', 'S-1-5-18') -notcontains $owner) { throw "$data exists and is owned by ${owner}: look what it is, and delete it" }
} else {
    New-Item -ItemType Directory -Path $data | Out-Null
}
$acl = New-Object Security.AccessControl.DirectorySecurity
$acl.SetAccessRuleProtection($true, $false)
foreach ($sid in 'S-1-5-32-544', 'S-1-5-18') {
    $who = New-Object Security.Principal.SecurityIdentifier $sid
    $acl.AddAccessRule((New-Object Security.AccessControl.FileSystemAccessRule ($who, 'FullControl', 'ContainerInherit,ObjectInherit', 'None', 'Allow')))
}
$acl.SetOwner((New-Object Security.Principal.SecurityIdentifier 'S-1-5-32-544'))
Set-Acl -LiteralPath $data -AclObject $acl

# 2. The key.
if ($TokenFile) {
    $token = ([IO.File]::ReadAllText((Resolve-Path -LiteralPath $TokenFile).ProviderPath)).Trim()
    if ($token -eq '') { throw "$TokenFile is empty" }
    $machine = [string] (Get-ItemProperty -LiteralPath 'HKLM:\SOFTWARE\Microsoft\Cryptography').MachineGuid
    $question = ConvertTo-Wire ([ordered] @{ enrollment_token = $token; name = $Name; machine_id = $machine })
    $answer = Send-Report $Server[0] '/api/v1/agents/enroll' $question @{}
    $id = [string] (Get-Field $answer 'agent_id')
    $secret = [string] (Get-Field $answer 'token')
    if ($id -eq '' -or $secret -eq '') { throw 'the broker gave no key: its answer has no agent_id and token' }
    [IO.File]::WriteAllText($keyFile, (ConvertTo-Wire ([ordered] @{ agent_id = $id; token = $secret })))
    Write-Output "This host is $id at the broker. The token is spent: delete $TokenFile."
} elseif (-not (Test-Path -LiteralPath $keyFile)) {
    throw 'this host has no key yet: give -TokenFile with an enrollment token'
}

# 3. Settings and program.
$settings = [ordered] @{ server = @($Server); interval_seconds = $IntervalSeconds; commands = @($Commands) }
if ($ProfileStore) { $settings.profile_store = $ProfileStore }
if ($Insecure) { $settings.insecure = $true }
[IO.File]::WriteAllText((Join-Path $data 'agent.json'), (ConvertTo-Json -InputObject $settings))
Stop-AgentTask
New-Item -ItemType Directory -Path $program -Force | Out-Null
Copy-Item -LiteralPath (Join-Path $PSScriptRoot 'sessionguard-agent.ps1') -Destination $program -Force

# 4. The task: at start-up, as SYSTEM, for ever, and again within a minute should it end.
$script = Join-Path $program 'sessionguard-agent.ps1'
$action = New-ScheduledTaskAction -Execute "$env:SystemRoot\System32\WindowsPowerShell\v1.0\powershell.exe" `
    -Argument "-NoProfile -NonInteractive -ExecutionPolicy Bypass -File ""$script"""
$trigger = New-ScheduledTaskTrigger -AtStartup
$who = New-ScheduledTaskPrincipal -UserId 'S-1-5-18' -LogonType ServiceAccount -RunLevel Highest
$how = New-ScheduledTaskSettingsSet -ExecutionTimeLimit ([TimeSpan]::Zero) -RestartCount 999 -RestartInterval (New-TimeSpan -Minutes 1) `
    -MultipleInstances IgnoreNew -StartWhenAvailable -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries
Register-ScheduledTask -TaskName $task -Action $action -Trigger $trigger -Principal $who -Settings $how `
    -Description 'Reports this session host to the connection broker' | Out-Null
Start-ScheduledTask -TaskName $task
Write-Output "The agent runs. What it says is in $(Join-Path $data 'agent.log')."
