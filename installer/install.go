package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"quiesce/installer/internal/enqueue"
	"quiesce/installer/internal/env"
	"quiesce/installer/internal/progress"
	"quiesce/installer/internal/rcm"
	"quiesce/installer/internal/refusal"
	"quiesce/installer/internal/shim"
	"quiesce/installer/internal/values"
	"quiesce/plugin/stage"
)

func installVerb() *cli.Command {
	return &cli.Command{
		Name: "install", Usage: "stage a handler: a shim, or a runtime type whose shim is on the node",
		Flags: append([]cli.Flag{
			handlerFlag(),
			&cli.StringFlag{Name: "shim", Aliases: []string{"asset-path", "a"}, Usage: "the shim's `PATH`: a file, a directory with what it needs, a tar.gz with shims, or an https URL of a file or a tar.gz (default: " + rcm.Assets + ", if there)", Sources: rcm.Env("ASSET_PATH", "QUIESCE_SHIM", "ASSET_PATH")},
			&cli.StringFlag{Name: "runtime-type", Usage: "`TYPE` such as io.containerd.spin.v2; without --shim, of a shim that is on the node", Sources: env.Vars("QUIESCE_RUNTIME_TYPE")},
			&cli.StringSliceFlag{Name: "option", Usage: "`KEY=VALUE` of the runtime's options; dots in the key nest", Sources: env.Vars("QUIESCE_OPTION")},
			&cli.StringSliceFlag{Name: "option-string", Usage: "`KEY=VALUE` as --option, the value always a text", Sources: env.Vars("QUIESCE_OPTION_STRING")},
			&cli.StringFlag{Name: "runtime-options", Usage: "options as a JSON `OBJECT` of texts", Sources: env.Vars("QUIESCE_RUNTIME_OPTIONS", "RUNTIME_OPTIONS")},
			&cli.StringSliceFlag{Name: "set", Usage: "`KEY=VALUE` of the runtime's own table, such as snapshotter=native or pod_annotations=a,b", Sources: env.Vars("QUIESCE_SET")},
			&cli.StringSliceFlag{Name: "sha256", Usage: "`[NAME=]HEX`: digest of the file, archive or download that --shim names (a URL needs it), or with NAME of a file in it", Sources: env.Vars("QUIESCE_SHA256")},
			&cli.StringFlag{Name: "ca-file", Usage: "`FILE` with further authorities (PEM) for the server of a URL", Sources: env.Vars("QUIESCE_CA_FILE")},
			&cli.BoolFlag{Name: "adopt", Usage: "replace a handler of this name that is not quiesce's; uninstall gives it back", Sources: env.Vars("QUIESCE_ADOPT")},
			drainFlag(), inboxFlag(),
		}, rcm.Flags()...),
		Action: install,
	}
}

func handlerFlag() cli.Flag {
	return &cli.StringFlag{Name: "handler", Aliases: []string{"runtime", "r"}, Usage: "the `NAME` of the handler, as in RuntimeClass.handler (default: NAME-vN of the shim)", Sources: rcm.Env("RUNTIME", "QUIESCE_HANDLER")}
}

func drainFlag() cli.Flag {
	return &cli.BoolFlag{Name: "drain", Usage: "first stop the handler's pods, in order and with their grace, and let no new one begin until then", Sources: env.Vars("QUIESCE_DRAIN")}
}

func inboxFlag() cli.Flag {
	return &cli.StringFlag{Name: "inbox", Usage: "the `DIR` to stage in (default: " + stage.DefaultDir + "/inbox)", Sources: env.Vars("QUIESCE_INBOX")}
}

func install(ctx context.Context, c *cli.Command) error {
	if err := noArgs(c); err != nil {
		return err
	}
	dir := rcm.Inbox(c.String("inbox"), c.String("host-root"))
	box, err := stage.OpenInbox(dir)
	if err != nil {
		return enqueue.Missing(dir, err)
	}
	defer box.Close()
	want, payload, err := declare(ctx, c, filepath.Join(dir, "tmp"))
	if err != nil {
		return err
	}
	defer payload.Close()
	bar := progress.New(c.Root().ErrWriter, payload.Size())
	got, err := enqueue.Install(ctx, box, want, shown{payload, bar}, bar.At)
	bar.Done()
	if err != nil {
		return enqueue.Explain(dir, err)
	}
	return report(c.Root().Writer, got, want.Handlers[0].Name, "goes live when no installer pod is in flight")
}

// shown is a payload whose copying a bar shows.
type shown struct {
	*shim.Payload
	bar *progress.Bar
}

// Open is part of enqueue.Payload.
func (s shown) Open(i int) (io.ReadCloser, error) {
	s.bar.Next()
	return s.Payload.Open(i)
}

func report(w io.Writer, got enqueue.Outcome, handler, then string) error {
	var err error
	switch got.State {
	case enqueue.Staged:
		_, err = fmt.Fprintf(w, "staged %s: handler %s %s; follow with: quiesce-installer status\n", got.ID, handler, then)
	case enqueue.AlreadyStaged:
		_, err = fmt.Fprintf(w, "already staged: handler %s %s (%s)\n", handler, then, got.ID)
	case enqueue.AlreadyInstalled:
		_, err = fmt.Fprintf(w, "already installed: handler %s (%s)\n", handler, got.ID)
	case enqueue.NotInstalled:
		_, err = fmt.Fprintf(w, "not installed: handler %s\n", handler)
	}
	return err
}

// declare is the entry that the flags ask for, and its files. What is kept of them until then is on scratch's disk.
func declare(ctx context.Context, c *cli.Command, scratch string) (stage.Manifest, *shim.Payload, error) {
	m := stage.Manifest{Schema: stage.Schema, Op: stage.Install, Owner: owner(), Drain: c.Bool("drain")}
	h := stage.Handler{Adopt: c.Bool("adopt")}
	var err error
	if h.Options, err = options(c); err != nil {
		return m, nil, err
	}
	if h.Settings, err = values.Setting(c.StringSlice("set")); err != nil {
		return m, nil, err
	}
	payload, name, err := bring(ctx, c, scratch)
	if err != nil {
		return m, nil, err
	}
	h.Name = cmp.Or(c.String("handler"), shim.HandlerOf(name))
	if h.Shim = payload.Shim; h.Shim == "" {
		h.RuntimeType = c.String("runtime-type")
	}
	m.Handlers, m.Files = []stage.Handler{h}, payload.Files
	m.ID = stage.NewID(m.Op, "x") // only for the check: enqueue gives the one that counts
	if err := m.ValidateRequest(); err != nil {
		return m, nil, errors.Join(refusal.New("%v", err), payload.Close())
	}
	return m, payload, nil
}

// bring loads the files, if any, and tells the shim's file name.
func bring(ctx context.Context, c *cli.Command, scratch string) (*shim.Payload, string, error) {
	var want string
	if kind := c.String("runtime-type"); kind != "" {
		name, err := shim.FileOf(kind)
		if err != nil {
			return nil, "", err
		}
		want = name
	}
	path := c.String("shim")
	if path == "" && want != "" {
		if len(c.StringSlice("sha256")) > 0 {
			return nil, "", refusal.New("sha256: of what? There is no --shim")
		}
		return &shim.Payload{}, want, nil
	}
	if path = rcm.Shim(path, c.String("host-root")); path == "" {
		return nil, "", refusal.New("install: name a shim with --shim, or one that is on the node with --runtime-type")
	}
	payload, err := shim.Load(ctx, shim.Request{
		From: path, File: want, Handler: c.String("handler"), SHA256: c.StringSlice("sha256"), CAFile: c.String("ca-file"), Scratch: scratch,
		Progress: func(total int64) (func(int64), func()) {
			bar := progress.New(c.Root().ErrWriter, total)
			return bar.At, bar.Done
		},
	})
	if err != nil {
		return nil, "", err
	}
	return payload, payload.Shim, nil
}

func options(c *cli.Command) (map[string]any, error) {
	t, err := values.FromJSON(c.String("runtime-options"))
	if err == nil {
		err = t.Set(c.StringSlice("option"), values.Typed)
	}
	if err == nil {
		err = t.Set(c.StringSlice("option-string"), values.Text)
	}
	return maps.Clone(map[string]any(t)), err
}

// owner is the pod this runs in. The kubelet gives a pod's name to its host, unless it shares the node's network.
func owner() stage.Owner {
	o := stage.Owner{Namespace: os.Getenv("POD_NAMESPACE"), Pod: os.Getenv("POD_NAME"), UID: os.Getenv("POD_UID")}
	if o.Pod == "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		o.Pod, _ = os.Hostname()
	}
	return o
}
