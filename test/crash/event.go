package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quiesce/test/node"
)

// handlers are those of histories, beside base, which is always live.
var handlers = []string{"eins", "zwei", "drei", "vier"}

func (p *player) handler() string { return handlers[p.r.IntN(len(handlers))] }

// enqueue runs an installer. It may fail: a disk may be full.
func (p *player) enqueue(ctx context.Context, args ...string) error {
	out, err := p.Installer(ctx, args...)
	if exit, ok := errors.AsType[*node.ExitError](err); ok && exit.Code == 1 && p.Faults > 0 {
		return nil
	}
	if id, ok := strings.CutPrefix(out, "staged "); ok {
		id, _, _ = strings.Cut(id, ":")
		p.staged = append(p.staged, id)
	}
	return err
}

func (p *player) installAny(ctx context.Context) error {
	args := []string{"install", "--handler", p.handler()}
	switch p.r.IntN(3) {
	case 0:
		args = append(args, "--shim", shim)
	case 1:
		args = append(args, "--shim", oneShim)
	default:
		args = append(args, "--runtime-type", "io.containerd.runc.v2", "--option", fmt.Sprintf("Root=/run/runc-%d", p.r.IntN(3)))
	}
	return p.enqueue(ctx, args...)
}

func (p *player) uninstallAny(ctx context.Context) error {
	return p.enqueue(ctx, "uninstall", "--handler", p.handler())
}

func (p *player) installBad(ctx context.Context) error {
	p.bad = true
	return p.enqueue(ctx, "install", "--handler", p.handler(), "--runtime-type", "io.containerd.runc.v2", "--set", "base_runtime_spec=/nowhere/spec.json")
}

// start starts a pod that ends by itself. A pod that cannot be started for some time is no fault: containerd is away.
func (p *player) start(ctx context.Context, pod node.Pod, code int, to *[]*promise) error {
	p.Bench.pods++
	pod.Name = fmt.Sprintf("history-%d", p.Bench.pods)
	pod.Labels = node.JobLabels(pod.Name)
	starting, cancel := context.WithTimeout(ctx, 2*time.Minute) // entries that containerd does not start with are tried one by one
	defer cancel()
	got, err := p.StartPod(starting, pod)
	if err != nil && p.spoiled { // no rollback without a disk
		if got, err = nil, p.heal(ctx); err == nil {
			healed, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			pod.Name += "-again"
			got, err = p.StartPod(healed, pod)
		}
	}
	if err != nil {
		return err
	}
	ending, forget := context.WithTimeout(ctx, 2*time.Minute)
	done := &promise{RunningPod: got, code: code, ended: make(chan error, 1), forget: forget}
	go func() { done.ended <- got.Wait(ending) }()
	*to = append(*to, done)
	return nil
}

// forget gives up on all pods.
func (p *player) forget() {
	for _, pod := range slices.Concat(p.pods, p.installers) {
		pod.forget()
		<-pod.ended //nolint:errcheck // given up, it says so
	}
	p.pods, p.installers = nil, nil
}

func (p *player) begin(ctx context.Context) error {
	code := 1 + p.r.IntN(99)
	c := node.Shell(fmt.Sprintf("sleep %.1f; exit %d", p.r.Float64()*3, code))
	return p.start(ctx, node.Pod{Containers: []node.Container{c}}, code, &p.pods)
}

func (p *player) beginInstaller(ctx context.Context) error {
	c := node.Shell(fmt.Sprintf("sleep %.1f", 1+p.r.Float64()*2))
	c.Mounts = []node.Mount{{Host: "/", Container: "/host"}}
	return p.start(ctx, node.Pod{Containers: []node.Container{c}}, 0, &p.installers)
}

// createAtLook lets a pod be made at the very moment at which apply has looked for the last time: it has to be refused.
func (p *player) createAtLook(ctx context.Context) error {
	if p.Faults > 0 {
		return p.installAny(ctx) // the fence is the daemon's, who may be away
	}
	forget := func() error { // an apply that was killed at a step has left word, too
		_, err := p.Exec(ctx, "rm", "-f", chaosDir+"/plan", chaosDir+"/planned", chaosDir+"/reached")
		return err
	}
	if err := errors.Join(forget(), p.put("plan", "1 hold looked")); err != nil {
		return err
	}
	defer func() { _ = forget() }()
	if err := p.installAny(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, 6*time.Second, errors.New("apply did not come there"))
	defer cancel()
	if p.Until(limited, "apply has looked", func(context.Context) (bool, error) { return p.got("reached") != "", nil }) != nil {
		return ctx.Err() // nothing to apply, or an installer is in flight
	}
	p.Bench.pods++
	pod, err := p.BeginPod(ctx, node.Pod{Name: fmt.Sprintf("refused-%d", p.Bench.pods), Containers: []node.Container{node.Shell("exit 0")}})
	if err != nil {
		return err
	}
	trying, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if pod.Start(trying) == nil {
		p.wrong("a container was created after apply had looked for the last time")
	}
	if err := p.put("release", ""); err != nil {
		return err
	}
	_, err = p.Exec(ctx, "sh", "-c", "sleep 0.1; rm "+chaosDir+"/release") // a hold looks each 5 ms
	return errors.Join(err, pod.Start(ctx), pod.Remove(ctx))
}

func kill(script string) func(*player, context.Context) error {
	return func(p *player, ctx context.Context) error {
		p.unsafe = true
		_, _ = p.Exec(ctx, "sh", "-c", script) // it may be down
		return nil
	}
}

// killApply kills the apply that is on, or the next one at some step.
func (p *player) killApply(ctx context.Context) error {
	if p.r.IntN(2) == 0 {
		return p.put("plan", fmt.Sprintf("%d kill", 1+p.r.IntN(150)))
	}
	return kill("systemctl kill --signal=KILL quiesce-apply.service")(p, ctx)
}

func (p *player) killShim(ctx context.Context) error {
	p.unsafe = true
	pods := p.pods
	if p.worker != nil && p.r.IntN(2) == 0 {
		pods, p.worker = []*promise{{RunningPod: p.worker}}, nil
	}
	if len(pods) > 0 {
		_, _ = p.Exec(ctx, "pkill", "-KILL", "-f", "containerd-shim-runc-v2 .*"+pods[p.r.IntN(len(pods))].SandboxID)
	}
	return nil
}

// cutPower takes the pods with it, but nothing that was staged.
func (p *player) cutPower(ctx context.Context) error {
	var written []string
	for _, d := range disks {
		if p.r.IntN(2) == 0 {
			written = append(written, d)
		}
	}
	p.unsafe = true
	p.forget()
	return p.cut(ctx, written)
}

// spoil makes one of the disks useless until the history ends.
func spoil(harm, heal string) func(*player, context.Context) error {
	return func(p *player, ctx context.Context) error {
		dir := disks[p.r.IntN(len(disks))]
		_, _ = p.Exec(ctx, "sh", "-c", strings.ReplaceAll(harm, "%[1]s", dir)) // a disk that is being written to does not become read-only
		if err := p.pause(ctx, time.Duration(p.r.Int64N(int64(1500*time.Millisecond)))); err != nil {
			return err
		}
		if p.r.IntN(2) == 0 {
			p.spoiled = true
			return nil
		}
		_, err := p.Exec(ctx, "sh", "-c", strings.ReplaceAll(heal, "%[1]s", dir))
		return err
	}
}

func (p *player) slow(context.Context) error {
	return p.WriteFile(slowFile, fmt.Appendf(nil, "%.1f", p.r.Float64()*5), 0o644)
}

// heal ends all faults that last.
func (p *player) heal(ctx context.Context) error {
	var script strings.Builder
	fmt.Fprintf(&script, "rm -f %s %s/plan; ", slowFile, chaosDir)
	for _, d := range disks {
		fmt.Fprintf(&script, "mount -o remount,rw %[1]s && rm -f %[1]s/ballast && ", d)
	}
	p.spoiled = false
	_, err := p.Exec(ctx, "sh", "-c", script.String()+"true")
	return err
}
