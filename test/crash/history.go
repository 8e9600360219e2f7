package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"quiesce/test/node"
)

// Played is a history on a bench.
type Played struct {
	Number int
	Events []string
	Faults int // of the events
	Wrong  []string
}

// player plays one history.
type player struct {
	*Bench
	Played
	r *rand.Rand

	staged     []string // ids
	pods       []*promise
	installers []*promise
	unsafe     bool // a fault came that may cost exit codes
	spoiled    bool // a disk is full or read-only
	bad        bool // a change came that containerd does not start with: its rollback waits for nobody, longer than a freeze lasts
	mounts     string
	lost       int // exit codes that quiesce had said to be lost before
}

// promise is a pod and the exit code it ends with. Its sandbox is stopped then, as a kubelet does.
type promise struct {
	*node.RunningPod
	code   int
	ended  chan error
	forget context.CancelFunc
}

// event is something that happens in a history.
type event struct {
	weight int
	name   string
	fault  bool
	do     func(*player, context.Context) error
}

func events() []event {
	return []event{
		{6, "install", false, (*player).installAny},
		{4, "uninstall", false, (*player).uninstallAny},
		{1, "install what does not work", false, (*player).installBad},
		{5, "a pod begins", false, (*player).begin},
		{4, "an installer begins", false, (*player).beginInstaller},
		{2, "a container is created while apply looks", false, (*player).createAtLook},
		{2, "the daemon is killed", true, kill("systemctl kill --signal=KILL quiesce.service")},
		{2, "apply is killed", true, (*player).killApply},
		{2, "containerd is killed", true, kill("systemctl kill --kill-whom=main --signal=KILL containerd.service")},
		{2, "a shim is killed", true, (*player).killShim},
		{1, "dbus is killed", true, kill("systemctl kill --signal=KILL dbus.service")},
		{2, "the power is cut", true, (*player).cutPower},
		{2, "a disk is full", true, spoil("dd if=/dev/zero of=%[1]s/ballast bs=64k 2>/dev/null; true", "rm -f %[1]s/ballast")},
		{2, "a disk is read-only", true, spoil("mount -o remount,ro %[1]s", "mount -o remount,rw %[1]s")},
		{2, "containerd is slow", true, (*player).slow},
	}
}

// Play plays the history of a number on the bench. An error is a fault of the bench.
func (b *Bench) Play(ctx context.Context, seed uint64, number int) (Played, error) {
	p := &player{Bench: b, Played: Played{Number: number}, r: rand.New(rand.NewPCG(seed, uint64(number)))}
	err := b.ensureWorker(ctx)
	if err == nil {
		p.mounts, err = p.mounted(ctx)
	}
	p.lost = p.saidLost()
	for range 3 + p.r.IntN(5) {
		if err == nil {
			err = p.happen(ctx)
		}
		if err == nil {
			err = p.pause(ctx, time.Duration(p.r.Int64N(int64(700*time.Millisecond))))
		}
	}
	if err = errors.Join(err, p.heal(ctx)); err != nil {
		return p.Played, fmt.Errorf("history %d (%s): %w", number, strings.Join(p.Events, ", "), err)
	}
	p.look(ctx)
	return p.Played, p.clean(ctx)
}

func (p *player) wrong(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	p.Wrong = append(p.Wrong, fmt.Sprintf("real history %d (%s): %s", p.Number, strings.Join(p.Events, ", "), s))
}

func (p *player) happen(ctx context.Context) error {
	all := events()
	total := 0
	for _, e := range all {
		total += e.weight
	}
	at := p.r.IntN(total)
	for _, e := range all {
		if at -= e.weight; at >= 0 {
			continue
		}
		p.Events = append(p.Events, e.name)
		if e.fault {
			p.Faults++
		}
		if err := e.do(p, ctx); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		return nil
	}
	return nil
}

func (p *player) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look says what is wrong when everything has come to rest.
func (p *player) look(ctx context.Context) {
	for _, pod := range slices.Concat(p.pods, p.installers) {
		if err := <-pod.ended; err != nil {
			p.wrong("pod %s does not end: %v", pod.Pod.Name, err)
		}
	}
	if err := p.Settle(ctx); err != nil {
		p.wrong("%v", err)
		return
	}
	var o Outcome
	p.judge(ctx, &o, nil)
	for _, w := range o.Wrong {
		p.wrong("%s", w)
	}
	results, err := p.results()
	for _, id := range p.staged {
		if r, ok := results[id]; err != nil || !ok || !r.Phase.Final() {
			p.wrong("entry %s is lost: its result says %q, %v", id, r.Phase, err)
		}
	}
	p.lookAtPods(ctx)
	out, err := p.Exec(ctx, "sh", "-c", "ls /proc/$(systemctl show -p MainPID --value quiesce.service)/fd | wc -l")
	var fds int
	if _, serr := fmt.Sscan(out, &fds); err != nil || serr != nil || fds > 64 {
		p.wrong("the daemon has %d file descriptors: %v", fds, errors.Join(err, serr))
	}
	if now, err := p.mounted(ctx); err != nil || now != p.mounts {
		p.wrong("mounted are\n%s, were\n%s, %v", now, p.mounts, err)
	}
}

// mounted lists what is mounted on the node, but for what is containerd's.
func (p *player) mounted(ctx context.Context) (string, error) {
	return p.Exec(ctx, "sh", "-c", "awk '{ print $5 }' /proc/1/mountinfo | grep -vE '^/(run|var/run|var/lib)/(containerd|netns|credentials)' | sort")
}

// lookAtPods compares exit codes with what they should be, and restarts with the installers that were in flight.
func (p *player) lookAtPods(ctx context.Context) {
	stops, err := p.Stops(ctx)
	if err != nil {
		p.wrong("read the journal: %v", err)
		return
	}
	named := 0
	if p.bad {
		named = p.saidLost() - p.lost
	}
	for _, pod := range slices.Concat(p.pods, p.installers) {
		st, err := pod.Status(ctx, "main")
		if err != nil {
			p.wrong("pod %s: %v", pod.Pod.Name, err)
			continue
		}
		if code := int(st.GetExitCode()); code != pod.code && !p.unsafe {
			if named--; named >= 0 {
				continue
			}
			p.wrong("pod %s ended with %d, %s, not with %d", pod.Pod.Name, code, st.GetReason(), pod.code)
		}
		if !slices.Contains(p.installers, pod) || p.bad || p.unsafe {
			continue
		}
		begin, end := time.Unix(0, st.GetStartedAt()), time.Unix(0, st.GetFinishedAt())
		for _, at := range stops {
			if at.After(begin.Add(200*time.Millisecond)) && at.Before(end) {
				p.wrong("containerd was restarted %v after installer %s began, %v before it ended", at.Sub(begin), pod.Pod.Name, end.Sub(at))
			}
		}
	}
}

// saidLost is how many exit codes quiesce has ever said to be lost.
func (p *player) saidLost() int {
	s, err := p.store()
	if err != nil {
		return 0
	}
	defer s.Close()
	return s.LastRestart().AllLost
}

// clean takes the history's pods away.
func (p *player) clean(ctx context.Context) error {
	if len(p.Wrong) > 0 {
		return nil // the bench is of no further use
	}
	for _, pod := range slices.Concat(p.pods, p.installers) {
		pod.forget()
		if err := pod.Remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
