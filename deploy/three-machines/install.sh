#!/bin/bash
# Puts the files of this machine in place; run it again after each change: bash install.sh
set -euo pipefail
cd "$(dirname "$0")"
id warpboard >/dev/null 2>&1 ||
    useradd --system --home-dir /var/lib/warpboard --shell /usr/sbin/nologin warpboard
cp -r etc/. /etc/
chown -R root:warpboard /etc/warpboard
chmod -R u=rwX,g=rX,o= /etc/warpboard
install -d -o warpboard -g warpboard -m 755 /var/lib/warpboard
install -D -m 755 postgres.sh /usr/local/sbin/warpboard-postgres
cp etc/warpboard/{cert,key,ca}.pem /etc/warpboard-postgres/
chown -R postgres:postgres /etc/warpboard-postgres
chmod -R u=rwX,go= /etc/warpboard-postgres
install -d -o postgres -g postgres -m 700 /var/lib/warpboard-postgres
if [ -d etc/caddy ]; then
    install -o caddy -g caddy -m 600 etc/warpboard/key.pem etc/warpboard/cert.pem /etc/caddy/
fi
if [ -e etc/warpboard/seal.key ]; then
    install -d -o warpboard -g warpboard -m 700 /var/lib/warpboard/ranker
    install -o warpboard -g warpboard -m 600 etc/warpboard/seal.key /var/lib/warpboard/ranker/
    rm /etc/warpboard/seal.key
fi
systemctl daemon-reload
systemctl enable --quiet nftables
systemctl restart nftables
