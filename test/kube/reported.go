package kube

import (
	"context"
	_ "embed" // the Job's template
	"fmt"
	"strings"
	"text/template"

	"quiesce/test/node"
)

// Images of reported Jobs.
const (
	ProvisionerImage = "localhost/node-installer:1" // restarts containerd from its own pod
	downloaderImage  = "localhost/shim-downloader:1"
)

// reportedImages are what reported Jobs run.
func reportedImages() []node.Image {
	return []node.Image{
		{Name: ProvisionerImage, Programs: map[string]string{"/provisioner": "./test/kube/provisioner"}, Entrypoint: []string{"/provisioner"}},
		{Name: downloaderImage, Entrypoint: []string{"/bin/sh", "-ec", `wget -q -O /tmp/shim.tar.gz "$SHIM_LOCATION" && tar -xzf /tmp/shim.tar.gz -C /assets`}},
	}
}

//go:embed reported.yaml
var reportedYAML string

// Reported is a Job of runtime-class-manager or kwasm.
type Reported struct {
	Operation string // install or uninstall
	Shim      string
	Image     string // of its main container; ProvisionerImage if empty
	Domain    string // of its labels; kwasm.sh if empty
	Namespace string // default if empty
}

// Name is the Job's.
func (r Reported) Name() string { return fmt.Sprintf("%s-%s-%s", NodeName, r.Shim, r.Operation) }

// YAML is the Job.
func (r Reported) YAML() (string, error) {
	t, err := template.New("reported.yaml").Parse(reportedYAML)
	if err != nil {
		return "", fmt.Errorf("parse template: %w", err)
	}
	or := func(s, def string) string {
		if s == "" {
			return def
		}
		return s
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]string{
		"Name": r.Name(), "Node": NodeName, "Operation": r.Operation, "Shim": r.Shim,
		"Image": or(r.Image, ProvisionerImage), "Domain": or(r.Domain, "kwasm.sh"), "Namespace": or(r.Namespace, "default"),
	})
	if err != nil {
		return "", fmt.Errorf("render Job: %w", err)
	}
	return out.String(), nil
}

// Report creates reported Jobs, all at once.
func (c *Cluster) Report(ctx context.Context, jobs ...Reported) error {
	var all []string
	for _, j := range jobs {
		y, err := j.YAML()
		if err != nil {
			return err
		}
		all = append(all, y)
	}
	return c.Apply(ctx, all...)
}

// serveShims puts the archives that downloaders fetch where the node's HTTP server has them.
func (c *Cluster) serveShims(ctx context.Context) error {
	const script = `set -e; mkdir -p /srv/shims /tmp/shims; cd /tmp/shims
for name; do
	cp /usr/local/bin/containerd-shim-runc-v2 containerd-shim-$name
	tar -c containerd-shim-$name | gzip -1 >/srv/shims/containerd-shim-$name.tar.gz
done`
	if _, err := c.Exec(ctx, append([]string{"sh", "-c", script, "sh"}, c.shims...)...); err != nil {
		return fmt.Errorf("serve shims: %w", err)
	}
	return nil
}
