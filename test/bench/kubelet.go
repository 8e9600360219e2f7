package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"quiesce/test/bench/measure"
	"quiesce/test/drain"
	"quiesce/test/lab"
	"quiesce/test/node"
)

const manifests = "/etc/kubernetes/manifests"

// kubeletConfig is a kubelet of its own, with static pods only, that stops pods by priority: a band for each tier.
func kubeletConfig() string {
	var config strings.Builder
	config.WriteString(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
staticPodPath: ` + manifests + `
authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
resolvConf: ""
maxPods: 250
evictionHard: { nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, memory.available: 1Mi }
shutdownGracePeriodByPodPriority:
`)
	for tier := range drain.Tiers {
		fmt.Fprintf(&config, "- { priority: %d, shutdownGracePeriodSeconds: 30 }\n", priority(tier))
	}
	return config.String()
}

// priority is what makes the kubelet stop a tier's pods in the order of the tiers.
func priority(tier int) int { return tier * 1000 }

const kubeletUnit = `[Unit]
After=containerd.service
Requires=containerd.service
[Service]
ExecStartPre=/bin/sh -c '[ -e /dev/kmsg ] || ln -s /dev/null /dev/kmsg'
ExecStart=/usr/local/bin/kubelet --config /etc/kubernetes/kubelet.yaml --hostname-override node1 --node-ip 10.99.0.1
[Install]
WantedBy=multi-user.target
`

// manifest is the static pod of a victim.
func manifest(p drain.Pod, tier int) ([]byte, error) {
	type m map[string]any
	c := p.Containers[0]
	var mounts, volumes []m
	for host, in := range c.Mounts {
		name := filepath.Base(in)
		mounts = append(mounts, m{"name": name, "mountPath": in})
		volumes = append(volumes, m{"name": name, "hostPath": m{"path": host}})
	}
	return json.Marshal(m{
		"apiVersion": "v1", "kind": "Pod", "metadata": m{"name": p.Name, "namespace": p.Namespace},
		"spec": m{
			"terminationGracePeriodSeconds": p.Grace, "priority": priority(tier), "enableServiceLinks": false, "volumes": volumes,
			"containers": []m{{"name": c.Name, "image": c.Image, "imagePullPolicy": "Never", "command": c.Argv, "volumeMounts": mounts}},
		},
	})
}

// kubelet has a real kubelet run the pods, switches the node off, and tells how long it took from there to the last pod's
// end: its graceful node shutdown, with logind's inhibitor and its signal.
func (b *bench) kubelet(ctx context.Context, pods []drain.Pod) (took measure.Series, err error) {
	tools, err := b.kit.Kubernetes(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string]node.File{
		"/usr/local/bin/kubelet":              {Host: filepath.Join(tools.Kubernetes, "kubelet"), Mode: 0o755},
		"/etc/kubernetes/kubelet.yaml":        {Content: kubeletConfig()},
		"/etc/systemd/system/kubelet.service": {Content: kubeletUnit},
		path.Join(drain.Evidence, ".keep"):    {},
		"/opt/cni/bin/.keep":                  {},
	}
	for i, p := range pods {
		text, err := manifest(p, i%drain.Tiers)
		if err != nil {
			return nil, fmt.Errorf("write manifest of %s: %w", p.Name, err)
		}
		files[path.Join(manifests, p.Name+".json")] = node.File{Content: string(text)}
	}
	l, _, err := drain.Boot(ctx, lab.Options{Name: "kubelet", NoHost: true, Node: node.Config{Files: files}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if _, err := l.Exec(ctx, "systemctl", "start", "kubelet"); err != nil {
		return nil, err
	}
	if err := drain.Started(ctx, l, names(pods)...); err != nil {
		journal, _ := l.Exec(context.WithoutCancel(ctx), "journalctl", "-u", "kubelet", "-o", "cat", "-n", "20")
		return nil, fmt.Errorf("%w; the kubelet says:\n%s", err, journal)
	}
	inhibitors, err := l.Exec(ctx, "systemd-inhibit", "--list", "--no-legend")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := l.Shutdown(ctx); err != nil {
		return nil, err
	}
	var last time.Time
	for _, p := range pods {
		life, err := lifeOf(l, p.Name)
		if err != nil {
			return nil, fmt.Errorf("graceful shutdown: %w (inhibitors: %s)", err, inhibitors)
		}
		if life.exit.After(last) {
			last = life.exit
		}
	}
	return measure.Series{last.Sub(began).Seconds()}, nil
}
