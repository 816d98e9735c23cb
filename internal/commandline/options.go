package commandline

// The options of docker, podman and nerdctl. No option takes a value in one of them and none in
// another.
const (
	// Before the command, without a value and with one.
	switchesBefore = `-D --debug --debug-full --experimental --help --insecure-registry --kube-hide-dupe --noout -r --remote
		--syslog --tls --tlsverify --trace --transient-store -v --version`
	valuesBefore = `-a --address --bridge-ip --cdi-spec-dirs --cgroup-manager --cni-netconfpath --cni-path --config --conmon
		-c --connection --context --data-root --db-backend --default-mounts-file --events-backend --global-dns
		--global-dns-opts --global-dns-search -H --hooks-dir --host --host-gateway-ip --hosts-dir --identity --imagestore -l
		--log-level --module -n --namespace --network-cmd-path --network-config-dir --out --root --runroot --runtime
		--runtime-flag --snapshotter --ssh --storage-driver --storage-opt --tls-ca --tls-cert --tls-key --tlscacert --tlscert
		--tlskey --tmpdir --url --userns-remap --volumepath`

	// After run, without a value and with one.
	switches = `-d --detach --disable-content-trust --env-host --help --http-proxy --init -i --interactive --no-healthcheck
		--no-hostname --no-hosts --oom-kill-disable --passwd --privileged -P --publish-all -q --quiet --read-only
		--read-only-tmpfs --replace --rm --rmi --rootfs --sig-proxy --tls-verify -t --tty --unsetenv-all --use-api-socket`
	values = `--add-host --annotation --arch -a --attach --authfile --blkio-weight --blkio-weight-device --cap-add --cap-drop
		--cert-dir --cgroup-conf --cgroup-parent --cgroupns --cgroups --chrootdirs --cidfile --conmon-pidfile
		--cosign-certificate-identity --cosign-certificate-identity-regexp --cosign-certificate-oidc-issuer
		--cosign-certificate-oidc-issuer-regexp --cosign-key --cpu-count --cpu-percent --cpu-period --cpu-quota
		--cpu-rt-period --cpu-rt-runtime -c --cpu-shares --cpus --cpuset-cpus --cpuset-mems --creds --decryption-key
		--detach-keys --device --device-cgroup-rule --device-read-bps --device-read-iops --device-write-bps
		--device-write-iops --dns --dns-opt --dns-option --dns-search --domainname --entrypoint -e --env --env-file
		--env-merge --expose --gidmap --gpus --group-add --group-entry --health-cmd --health-interval
		--health-log-destination --health-max-log-count --health-max-log-size --health-on-failure --health-retries
		--health-start-interval --health-start-period --health-startup-cmd --health-startup-interval
		--health-startup-retries --health-startup-success --health-startup-timeout --health-timeout -h --hostname
		--hosts-file --hostuser --image-volume --init-binary --init-path --intel-rdt-closid --io-maxbandwidth --io-maxiops
		--ip --ip6 --ipc --ipfs-address --isolation --kernel-memory -l --label --label-file --link --link-local-ip
		--log-driver --log-opt --mac-address -m --memory --memory-reservation --memory-swap --memory-swappiness --mount
		--name --net --net-alias --network --network-alias --oom-score-adj --os --passwd-entry --personality --pid --pidfile
		--pids-limit --platform --pod --pod-id-file --preserve-fd --preserve-fds -p --publish --pull --rdt-class --requires
		--restart --retry --retry-delay --runtime --sdnotify --seccomp-policy --secret --security-opt --shm-size
		--shm-size-systemd --stop-signal --stop-timeout --storage-opt --subgidname --subuidname --sysctl --systemd
		--timeout --tmpfs --tz --uidmap --ulimit --umask --unsetenv -u --user --userns --uts --variant --verify -v --volume
		--volume-driver --volumes-from -w --workdir`
)
