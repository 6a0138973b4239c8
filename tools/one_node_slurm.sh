#!/bin/sh
# A SLURM cluster of this machine alone, for `make test-engines`: Debian's slurm-wlm and munge, no accounting,
# no cgroups. Needs root. State and logs go to a folder of its own; `one_node_slurm.sh stop` ends what was
# started.
set -eu
home=${SLURM_HOME:-/tmp/one-node-slurm}
if [ "${1:-start}" = stop ]; then
  for one in slurmd slurmctld munged; do
    [ -f "$home/$one.pid" ] && kill "$(cat "$home/$one.pid")" 2>/dev/null || true
  done
  exit 0
fi
mkdir -p "$home/state" "$home/spool" /run/munge
chown munge: /run/munge
[ -f /etc/munge/munge.key ] || { dd if=/dev/urandom bs=1 count=1024 2>/dev/null > /etc/munge/munge.key; }
chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
if ! pgrep -x munged > /dev/null; then  # one that runs already is not ours to stop
  runuser -u munge -- munged --force --pid-file /run/munge/munged.pid
  cp /run/munge/munged.pid "$home/munged.pid"
fi
node=$(hostname -s)
cat > "$home/slurm.conf" << CONF
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/slurmd.log
MpiDefault=none
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$home/slurm.conf"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF"
echo "export SLURM_CONF=$SLURM_CONF"
