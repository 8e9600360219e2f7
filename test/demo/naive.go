package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"quiesce/test/lab"
	"quiesce/test/node"
)

const shim = "spin-v2"

// naive runs the reported Job's pod on a node without quiesce.
func naive(ctx context.Context, evidence string) (e ended, err error) {
	l, err := lab.Boot(ctx, lab.Options{Name: "naive", Shims: []string{shim}, NoHost: true})
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	const job = "node1-spin-v2-install"
	if _, err := l.Exec(ctx, "mkdir", "-p", "/var/lib/kubelet/pods/"+job+"/volumes/kubernetes.io~empty-dir/shim-download-assets"); err != nil {
		return e, err
	}
	fmt.Println("   It copies the shim, edits containerd's config, and sends containerd SIGHUP …")
	p, err := l.RunPod(ctx, lab.ReportedPod(job, node.BusyboxImage, "install", shim, lab.Provision(shim), 1))
	if err != nil {
		return e, err
	}
	s, err := p.Status(ctx, "provisioner")
	if err != nil {
		return e, err
	}
	dir := filepath.Join(evidence, "naive")
	if err := errors.Join(inspect(ctx, l, dir, job, p.ID("provisioner")), journal(ctx, l, dir, "containerd", "containerd.service")); err != nil {
		return e, err
	}
	return ended{ExitCode: s.GetExitCode(), Reason: s.GetReason()}, nil
}
