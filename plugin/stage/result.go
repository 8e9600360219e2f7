package stage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Phase is how far an entry is.
type Phase string

// The phases of an entry. Live, Removed, Rejected and Superseded are final.
const (
	Pending    Phase = "pending"    // staged, the gate is closed; Reason says why
	Applying   Phase = "applying"   // apply has it
	Unverified Phase = "unverified" // applied at boot, waiting for containerd
	IsLive     Phase = "live"
	Removed    Phase = "removed"
	Rejected   Phase = "rejected" // refused or rolled back; Reason says why
	Superseded Phase = "superseded"
)

// Final tells whether the phase is the last one.
func (p Phase) Final() bool {
	return p == IsLive || p == Removed || p == Rejected || p == Superseded
}

// Result is what became of an entry: results/ID.json.
type Result struct {
	Schema   int       `json:"schema"`
	ID       string    `json:"id"`
	Op       Op        `json:"op"`
	Handlers []string  `json:"handlers"`
	Version  string    `json:"version,omitempty"` // of the payload
	Owner    Owner     `json:"owner,omitzero"`
	Phase    Phase     `json:"phase"`
	Reason   string    `json:"reason,omitempty"`
	Lost     []string  `json:"lost,omitempty"` // containers whose exit code the restart cost
	Staged   time.Time `json:"staged,omitzero"`
	Updated  time.Time `json:"updated"`
}

// NewResult starts the result of an entry.
func NewResult(e Entry, p Phase, reason string) Result {
	return Result{
		Schema: Schema, ID: e.ID, Op: e.Op, Handlers: e.Names(), Version: e.Version(), Owner: e.Owner,
		Phase: p, Reason: strings.ReplaceAll(reason, "\n", "; "), Staged: e.Staged, Updated: time.Now().UTC(),
	}
}

// Publish writes a result if it says anything new.
func (s *Store) Publish(r Result) error {
	name := r.ID + ".json"
	if !idForm.MatchString(r.ID) || r.ID == restartID || r.ID == nodeID {
		return nil // an entry whose name is no id has nobody who waits for it
	}
	var old Result
	if s.result(r.ID, &old) {
		if old.Phase.Final() && r.Phase == Pending {
			return nil // apply was faster than the daemon that says so
		}
		if old.Phase == r.Phase && old.Reason == r.Reason && slices.Equal(old.Lost, r.Lost) {
			return nil
		}
		if r.Staged.IsZero() {
			r.Staged = old.Staged
		}
	}
	return s.results.writeJSON(name, r, 0o644)
}

func (s *Store) result(id string, r *Result) (known bool) {
	b, err := s.results.Read(id+".json", MaxManifest)
	return err == nil && json.Unmarshal(b, r) == nil
}

// PublishLive writes the hint for installers: the live entries none of whose handlers is pending, and the pending handlers. Needs Lock.
func (s *Store) PublishLive(pending []Entry) error {
	current, err := s.Current()
	if err != nil {
		return err
	}
	busy := map[string]bool{}
	for _, e := range pending {
		for _, h := range e.Handlers {
			busy[h.Name] = true
		}
	}
	hint := Hint{Live: []Manifest{}, Busy: slices.Sorted(maps.Keys(busy))}
	for _, e := range current {
		if !slices.ContainsFunc(e.Handlers, func(h Handler) bool { return busy[h.Name] }) {
			hint.Live = append(hint.Live, e.Manifest)
		}
	}
	if err := s.inbox.writeJSON(liveName, hint, 0o600); err != nil {
		if rerr := s.inbox.Remove(liveName); rerr != nil {
			return errors.Join(err, rerr)
		}
		return nil // without a hint installers stage whatever they are asked for, which is right too
	}
	return nil
}

// keepResults is how many final results are kept for entries that are not live.
const keepResults = 200

// PruneResults removes the oldest final results beyond keepResults, and what is left of their entries; those of live
// entries stay.
func (s *Store) PruneResults() error {
	rs, err := Results(filepath.Join(s.dir, resultsRoom))
	if err != nil {
		return err
	}
	current, err := s.Current()
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(rs, func(r Result) bool {
		return !r.Phase.Final() || slices.ContainsFunc(current, func(e Entry) bool { return e.ID == r.ID })
	})
	for len(old) > keepResults {
		err = errors.Join(err, s.store.Remove(path.Join("bad", old[0].ID)), s.results.Remove(old[0].ID+".json"))
		old = old[1:]
	}
	return err
}

// Results reads a results directory, oldest first.
func Results(dir string) ([]Result, error) {
	t, err := OpenTree(dir)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	defer t.Close()
	names, err := t.list(".")
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, n := range names {
		if path.Ext(n) != ".json" {
			continue
		}
		var r Result
		if b, err := t.Read(n, MaxManifest); err == nil && json.Unmarshal(b, &r) == nil && r.ID == strings.TrimSuffix(n, ".json") {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Result) int { return a.Updated.Compare(b.Updated) })
	return out, nil
}

// Restart is what the last restart of the runtime was: results/restart.json.
type Restart struct {
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took_ns"` // until everything was verified
	Entries []string      `json:"entries,omitempty"`
	Failed  string        `json:"failed,omitempty"`
	Lost    []string      `json:"lost,omitempty"` // containers whose exit code it cost
	Freeze  Freeze        `json:"freeze"`
	Done    int           `json:"done"`   // how many restarts were verified, this one included
	Broken  int           `json:"broken"` // how many were not

	// Of all restarts, this one included.
	AllTook      time.Duration `json:"all_took_ns"`
	AllProtected int           `json:"all_protected"`
	AllLost      int           `json:"all_lost"`
}

// Freeze tells of the containers that were kept from ending during a restart.
type Freeze struct {
	Containers  int           `json:"containers"`
	From        time.Time     `json:"from,omitzero"` // when all of them were frozen
	To          time.Time     `json:"to,omitzero"`
	Longest     time.Duration `json:"longest_ns"`            // how long the first of them was
	Early       bool          `json:"early,omitempty"`       // the limit, or an operator, thawed them before the runtime was back
	Unprotected []string      `json:"unprotected,omitempty"` // containers whose exit code was at risk, with the reason
}

// These are no entries' ids: their results would be where other files are.
const (
	restartID   = "restart"
	restartName = restartID + ".json"
	nodeID      = "node"
	nodeName    = nodeID + ".json"
)

// GateState is what the gate does, in results/node.json.
type GateState struct {
	Phase    string    `json:"phase"`
	Since    time.Time `json:"since"`
	Blockers []string  `json:"blockers,omitempty"` // those of all entries
}

// PublishNode writes what was found on this node to results/node.json, unless it is there.
func (s *Store) PublishNode(found any) error {
	b, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("write %s: %w", nodeName, err)
	}
	if old, err := s.results.Read(nodeName, MaxManifest); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return s.results.WriteBytes(nodeName, b, Attr{Mode: 0o644})
}

// Node reads what was found on the node whose results directory this is.
func Node(dir string, found any) error {
	t, err := OpenTree(dir)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	defer t.Close()
	b, err := t.Read(nodeName, MaxManifest)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, found); err != nil {
		return fmt.Errorf("read %s: %w", nodeName, err)
	}
	return nil
}

// PublishRestart counts a restart. Needs Lock.
func (s *Store) PublishRestart(r Restart) error {
	last := s.LastRestart()
	r.Done, r.Broken = last.Done+1, last.Broken
	if r.Failed != "" {
		r.Done, r.Broken = last.Done, last.Broken+1
	}
	r.AllTook = last.AllTook + r.Took
	r.AllProtected, r.AllLost = last.AllProtected+r.Freeze.Containers, last.AllLost+len(r.Lost)
	return s.results.writeJSON(restartName, r, 0o644)
}

// LastRestart is zero if there was none.
func (s *Store) LastRestart() Restart {
	var r Restart
	if b, err := s.results.Read(restartName, MaxManifest); err == nil {
		_ = json.Unmarshal(b, &r) // one that cannot be read counts as none
	}
	return r
}
