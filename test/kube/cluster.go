package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quiesce/test/lab"
	"quiesce/test/node"
)

// NodeName is the name of the one node.
const NodeName = "node1"

// readyBudget is the longest that a cluster may take from the node's boot until the node is Ready; alone it takes 15 s.
const readyBudget = 3 * time.Minute

// base holds the units and configuration files of the cluster.
//
//go:embed base
var base embed.FS

// Options of a cluster.
type Options struct {
	Lab lab.Options
	// Kubelet are further lines of the kubelet's configuration.
	Kubelet string
	// Manifests are static pods that the node has from its first boot: file name → YAML.
	Manifests map[string]string
	// Images are added to those of the lab.
	Images []node.Image
}

// Cluster is a running cluster of one node.
type Cluster struct {
	*lab.Lab
	shims []string
}

// Boot makes the node, and waits until it is Ready and quiesce is on it, unless the options say that it should not be.
func Boot(ctx context.Context, o Options) (*Cluster, error) {
	l := o.Lab
	files, err := o.files()
	if err != nil {
		return nil, err
	}
	tools, err := programs(ctx)
	if err != nil {
		return nil, err
	}
	l.Node.Files, l.Node.Tools = files, tools
	l.Node.Images = slices.Concat(l.Node.Images, reportedImages(), o.Images)
	l.Node.Enable = append(l.Node.Enable, units()...)
	booted, err := lab.Boot(ctx, l)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Lab: booted, shims: l.Shims}
	err = c.serveShims(ctx)
	if err == nil {
		err = c.WaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.lastWords(ctx), c.Close())
	}
	return c, nil
}

// lastWords are the ends of the journals of what should have come up.
func (c *Cluster) lastWords(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	var errs []error
	for _, unit := range []string{"etcd", "kube-apiserver", "kubelet"} {
		out, err := c.Exec(ctx, "journalctl", "--unit", unit, "--lines", "12", "--output", "cat", "--no-pager")
		if err != nil {
			out = err.Error()
		}
		errs = append(errs, fmt.Errorf("%s: %s", unit, out))
	}
	return errors.Join(errs...)
}

// units are those of the cluster.
func units() []string {
	return []string{
		"etcd.service", "kube-apiserver.service", "kube-controller-manager.service", "kube-scheduler.service",
		"kubelet.service", "kubernetes-api.service", "shims.service",
	}
}

// programs are those of the cluster: path in the node → file.
func programs(ctx context.Context) (map[string]string, error) {
	kit, err := node.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := kit.Kubernetes(ctx)
	if err != nil {
		return nil, fmt.Errorf("build Kubernetes: %w", err)
	}
	all := map[string]string{"/usr/local/bin/etcd": filepath.Join(tools.Etcd, "server")}
	for _, name := range []string{"kubelet", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		all[path.Join("/usr/local/bin", name)] = filepath.Join(tools.Kubernetes, name)
	}
	return all, nil
}

// files are the node's: those of base, a key for service accounts, static pods.
func (o Options) files() (map[string]node.File, error) {
	files := map[string]node.File{}
	maps.Copy(files, o.Lab.Node.Files)
	err := fs.WalkDir(base, "base", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := base.ReadFile(name)
		files[strings.TrimPrefix(name, "base")] = node.File{Content: string(data)}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read base files: %w", err)
	}
	const kubelet = "/etc/kubernetes/kubelet.yaml"
	config := files[kubelet].Content
	if o.Lab.Node.SystemdCgroup {
		config = strings.Replace(config, "cgroupDriver: cgroupfs", "cgroupDriver: systemd", 1)
	}
	files[kubelet] = node.File{Content: config + o.Kubelet}
	if files["/etc/kubernetes/service-account.key"], err = newKey(); err != nil {
		return nil, err
	}
	for name, content := range o.Manifests {
		files[path.Join("/etc/kubernetes/manifests", name)] = node.File{Content: content}
	}
	return files, nil
}

// newKey makes a private key in PEM.
func newKey() (node.File, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return node.File{}, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return node.File{}, fmt.Errorf("encode key: %w", err)
	}
	return node.File{Content: string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), Mode: 0o600}, nil
}

// WaitReady waits until the node is Ready, as the API server sees it, with a heartbeat of the running kubelet.
func (c *Cluster) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyBudget, fmt.Errorf("not within %v", readyBudget))
	defer cancel()
	return c.Until(ctx, NodeName+" is Ready", func(ctx context.Context) (bool, error) {
		n, err := c.NodeStatus(ctx)
		return err == nil && n.Ready(c.Booted()), nil
	})
}
