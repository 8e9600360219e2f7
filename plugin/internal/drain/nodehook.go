package drain

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/containerd/log"
)

// Moment is when hooks of the node's operator run.
type Moment string

// The moments.
const (
	PreDrain  Moment = "pre-drain"  // before anything is stopped
	PreTier   Moment = "pre-tier"   // before the pods of a tier
	PostTier  Moment = "post-tier"  // when they and their sandboxes have stopped
	PostDrain Moment = "post-drain" // when everything has
	PostStart Moment = "post-start" // when the drain is over: the services have started again, or an operator resumed
)

// OnFailure is what the failure of a hook does.
type OnFailure string

// The policies.
const (
	Ignore OnFailure = "ignore" // the report says so
	Abort  OnFailure = "abort"  // the drain ends; that of a stop or a shutdown, which cannot be put off, goes on
)

// NodeHook is a program of the operator's.
type NodeHook struct {
	When      Moment
	Tier      string // name or rank, for PreTier and PostTier; empty: every tier
	Path      string
	Timeout   time.Duration
	OnFailure OnFailure
}

// HookCall is what a hook is told.
type HookCall struct {
	Hook      NodeHook
	Drain     string // id of the drain
	N         int    // of the call, within the drain
	Tier      string
	Reason    string
	Selection string
	Deadline  time.Time // of the drain
	Limit     time.Duration
}

// HookRecord is a call of a hook in the report.
type HookRecord struct {
	When   Moment    `json:"when"`
	Tier   string    `json:"tier,omitempty"`
	Path   string    `json:"path"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"`
	Error  string    `json:"error,omitempty"`  // empty: it ended with 0
	Output string    `json:"output,omitempty"` // the end of it
}

// NodeHooks runs hooks. It returns when the hook and all that it started have ended.
type NodeHooks interface {
	Call(ctx context.Context, c HookCall) (output string, err error)
}

// ErrAborted says that a hook ended the drain.
var ErrAborted = errors.New("a hook aborted the drain")

// lastHook is what a hook after the drain gets at least, if it asks for it, when the drain's deadline has passed.
const lastHook = 30 * time.Second

func (p *Policy) validHook(h NodeHook) error {
	_, rank, err := p.tier(h.Tier)
	named := slices.ContainsFunc(p.Tiers, func(t Tier) bool { return t.Rank == rank })
	tiers := h.When == PreTier || h.When == PostTier
	switch {
	case !slices.Contains([]Moment{PreDrain, PreTier, PostTier, PostDrain, PostStart}, h.When):
		return fmt.Errorf("when %q must be %s, %s, %s, %s or %s", h.When, PreDrain, PreTier, PostTier, PostDrain, PostStart)
	case h.Tier != "" && !tiers:
		return fmt.Errorf("tier: a hook %s has none", h.When)
	case h.Tier != "" && (err != nil || !named):
		return fmt.Errorf("tier %q is none of the tiers", h.Tier)
	case !path.IsAbs(h.Path) || path.Clean(h.Path) != h.Path:
		return fmt.Errorf("path %q must be absolute and without dots", h.Path)
	case h.Timeout <= 0:
		return errors.New("timeout: must be more than 0")
	case h.OnFailure != Ignore && h.OnFailure != Abort:
		return fmt.Errorf("onFailure %q must be %s or %s", h.OnFailure, Ignore, Abort)
	case h.OnFailure == Abort && (h.When == PostDrain || h.When == PostStart):
		return fmt.Errorf("onFailure %q: %s there is nothing left to abort", h.OnFailure, h.When)
	}
	return nil
}

// hooked tells whether any hook runs at a moment.
func (p *Policy) hooked(when Moment) bool {
	return slices.ContainsFunc(p.Hooks, func(h NodeHook) bool { return h.When == when })
}

// hooks runs those of a moment, one after the other, each once in a drain. The error is that of one that aborts it.
func (e *Engine) hooks(ctx context.Context, when Moment, step *StepRecord) error {
	for _, h := range e.Policy.Hooks {
		tier := ""
		if step != nil {
			tier = e.Policy.name(step.Rank)
			if _, rank, err := e.Policy.tier(h.Tier); h.Tier != "" && (err != nil || rank != step.Rank) {
				continue
			}
		}
		if h.When != when || ctx.Err() != nil {
			continue
		}
		err := e.nodeHook(ctx, h, tier)
		switch {
		case err == nil || h.OnFailure != Abort:
		case e.state.Binding:
			e.persist(ctx, func() {
				e.state.note(fmt.Sprintf("hook %s failed and would abort the drain: a stop of the services cannot be put off", h.Path))
			})
		default:
			return fmt.Errorf("%w: hook %s %s: %w", ErrAborted, h.Path, when, err)
		}
	}
	return nil
}

// nodeHook runs one hook unless it has run.
func (e *Engine) nodeHook(ctx context.Context, h NodeHook, tier string) error {
	if e.state.hooked(h, tier) {
		return nil
	}
	limit := h.Timeout
	if left := time.Until(e.state.Deadline); h.When == PostDrain {
		limit = min(limit, max(left, lastHook))
	} else {
		limit = min(limit, max(left, Floor))
	}
	r := &HookRecord{When: h.When, Tier: tier, Path: h.Path, Began: time.Now().UTC()}
	e.persist(ctx, func() { e.state.Hooks = append(e.state.Hooks, r) })
	c := e.state.call(h, tier, limit)
	out, err := callHook(ctx, e.NodeHooks, c)
	e.persist(ctx, func() { r.end(out, err) })
	return err
}

func callHook(ctx context.Context, hooks NodeHooks, c HookCall) (string, error) {
	l := log.G(ctx).WithField("hook", c.Hook.Path).WithField("when", c.Hook.When).WithField("tier", c.Tier)
	if hooks == nil {
		return "", errors.New("hooks cannot be run here")
	}
	out, err := hooks.Call(ctx, c)
	if err != nil {
		l.WithError(err).Warn("a hook failed")
	} else {
		l.Info("a hook has run")
	}
	return out, err
}

func (s *State) call(h NodeHook, tier string, limit time.Duration) HookCall {
	return HookCall{
		Hook: h, Drain: s.ID, N: len(s.Hooks), Tier: tier, Reason: s.Trigger, Selection: s.Selection.String(),
		Deadline: s.Deadline, Limit: limit,
	}
}

func (r *HookRecord) end(out string, err error) {
	r.Ended, r.Output = time.Now().UTC(), out
	if err != nil {
		r.Error = err.Error()
	}
}

// hooked tells whether a hook has been begun, also by a process that was killed: like signals, hooks are not repeated.
func (s *State) hooked(h NodeHook, tier string) bool {
	return slices.ContainsFunc(s.Hooks, func(r *HookRecord) bool { return r.When == h.When && r.Tier == tier && r.Path == h.Path })
}

// AfterStart runs the hooks after the start and puts them into the report of the drain that is over.
func (s *State) AfterStart(ctx context.Context, policy Policy, hooks NodeHooks) (ran bool) {
	for _, h := range policy.Hooks {
		if h.When != PostStart || s.hooked(h, "") {
			continue
		}
		r := &HookRecord{When: h.When, Path: h.Path, Began: time.Now().UTC()}
		s.Hooks = append(s.Hooks, r)
		r.end(callHook(ctx, hooks, s.call(h, "", h.Timeout)))
		ran = true
	}
	return ran
}

// abort ends the drain because of a hook.
func (e *Engine) abort(ctx context.Context, why error) error {
	log.G(ctx).WithError(why).Error("the drain ends before it is done")
	e.edit(func() {
		e.state.Phase, e.state.EndedAt = Ended, time.Now().UTC()
		e.state.note(why.Error())
	})
	err := errors.Join(why, e.commit(ctx))
	e.tell(ctx)
	return err
}
