#!/bin/bash
# PID 1 of a host, in namespaces of its own: a writable layer over this machine's files, empty /run
# and /dev/shm, cgroups below its own, and systemd with no unit but what the host is given.
# Usage: boot.sh NAME FOLDER CHECKOUT…
set -euo pipefail
name=$1 folder=$2
shift 2
mount --make-rprivate /
hostname "$name"
mount -t tmpfs -o mode=755 layers "$folder"
mkdir "$folder"/{upper,work,root}
root=$folder/root
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
# What is on another file system is not below the layer.
for path in "$@"; do
    if [ "$(stat -c %d "$path")" != "$(stat -c %d /)" ]; then
        mkdir -p "$root$path"
        mount --rbind "$path" "$root$path"
    fi
done
# This machine's Python may be in a home, which others cannot enter.
for path in "$@"; do
    while [ "$path" != / ]; do
        if [ "$(stat -c %d "$path")" = "$(stat -c %d /)" ]; then
            chmod o+rx "$root$path"
        fi
        path=$(dirname "$path")
    done
done
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
# Only the host's own part of each hierarchy.
mounts=$(grep -E '^[^ ]+ [^ ]+ cgroup2? ' /proc/self/mounts | grep -v " $root/")
umount --lazy --recursive "$root/sys/fs/cgroup"
if ! grep -q ' /sys/fs/cgroup cgroup2 ' <<<"$mounts"; then
    mount -t tmpfs -o mode=755 cgroups "$root/sys/fs/cgroup"
fi
while read -r _ path type options _; do
    mkdir -p "$root$path"
    options=${options#rw,} options=${options#nosuid,} options=${options#nodev,}
    options=${options#noexec,} options=${options#relatime,} options=${options#relatime}
    mount -t "$type" ${options:+-o "$options"} cgroups "$root$path"
done <<<"$mounts"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty fuse kvm; do
    if [ -e "/dev/$device" ]; then
        touch "$root/dev/$device"
        mount --bind "/dev/$device" "$root/dev/$device"
    fi
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=755 run "$root/run"
echo "$name" >"$root/etc/hostname"
rm -rf "$root"/etc/systemd/system/* "$root"/etc/warpboard "$root"/var/lib/warpboard
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/var/log/journal" "$root/old"
# Nothing of this machine's: what the operator enables is all that a host runs.
cat >"$root/etc/systemd/system/default.target" <<'UNIT'
[Unit]
Requires=basic.target systemd-user-sessions.service
After=basic.target systemd-user-sessions.service
AllowIsolate=yes
UNIT
for unit in warpboard- warpboard-gpu-agent@; do
    mkdir -p "$root/etc/systemd/system/$unit.service.d"
    cat >"$root/etc/systemd/system/$unit.service.d/test.conf" <<'UNIT'
[Service]
ProtectHome=no
# Two cores are busy with all hosts: a timed run would wait for a quiet moment.
Environment=WARPBOARD_GPU_AGENT_QUIET_WAIT_S=0
UNIT
done
for unit in systemd-udevd systemd-timesyncd systemd-resolved systemd-networkd; do
    ln -s /dev/null "$root/etc/systemd/system/$unit.service"
done
cd "$root"
pivot_root . old
umount -l /old
exec env -i container=warpboard-test /lib/systemd/systemd --system --log-target=journal
