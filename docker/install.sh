#!/bin/sh
# In an image's last stage: installs /packages/echotrain_*.deb and what runs it, and leaves nothing else behind.
set -eu
here=$(dirname "$0")
# Leaves out manuals, but keeps all licences.
printf '%s\n' 'path-exclude=/usr/share/doc/*' 'path-include=/usr/share/doc/*/copyright' 'path-exclude=/usr/share/man/*' \
  'path-exclude=/usr/share/locale/*' 'path-exclude=/usr/share/info/*' >/etc/dpkg/dpkg.cfg.d/small-image
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends tini /packages/echotrain_*.deb
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log /var/log/alternatives.log \
  /var/log/bootstrap.log /var/cache/ldconfig /usr/lib/systemd/system/echotrain-server.service
cp "$here/container.yaml" /etc/echotrain/echotrain.yaml

# The user has no entry in /etc/passwd to log in with, and may write to these two folders only.
mkdir -p /var/lib/echotrain /var/cache/echotrain
chown 10001:10001 /var/lib/echotrain /var/cache/echotrain
# No program may change its user in the container.
find / -xdev -perm /6000 -type f -exec chmod a-s {} +

# The list of contents (SBOM), as CycloneDX 1.5 (cyclonedx.org), from the list of packages.
. /etc/os-release
mkdir -p /usr/share/echotrain
{
  printf '{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,\n'
  printf ' "metadata": {"component": {"type": "container", "name": "echotrain", "version": "%s"}},\n "components": [\n' \
    "$(dpkg-query -W -f '${Version}' echotrain)"
  dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' | awk -v distribution="$ID" '
    { encoded = $2; gsub(/\+/, "%2B", encoded); gsub(/:/, "%3A", encoded)
      printf "%s  {\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"pkg:deb/%s/%s@%s?arch=%s\"}",
        before, $1, $2, distribution, $1, encoded, $3
      before = ",\n" }'
  printf '\n]}\n'
} >/usr/share/echotrain/sbom.cdx.json
rm -rf /tmp/install
