package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"quiesce/test/drain"
	"quiesce/test/lab"
	"quiesce/test/node"
)

// commits is how many the client of the database has seen when the services stop.
const commits = 1500

// postgres stops the services under a database that is being written to.
func (d *demo) postgres(ctx context.Context, w drain.Way) error {
	o := lab.Options{Name: "demo-pg", NoHost: !w.Clean, Node: node.Config{Images: []node.Image{d.image}}}
	return on(ctx, o, func(l *lab.Lab, k *drain.Kubelet) error {
		db, err := drain.StartDatabase(ctx, l, k)
		if err != nil {
			return err
		}
		d.say("%s: PostgreSQL runs in a pod, a client pod writes", w.Name)
		if err := db.Load(ctx, commits); err != nil {
			return err
		}
		d.say("%s: the client has seen %d commits and goes on; the node's services are stopped now", w.Name, len(db.Seen()))
		e, err := db.Stop(ctx, w, d.keep)
		if err != nil {
			return err
		}
		d.say("%s: clean shutdown: %v, recovery at the next start: %v, %d of %d rows lost", w.Name, e.Clean, e.Recovery, e.Lost, e.Committed)
		d.mu.Lock()
		switch w.Name {
		case "quiesce":
			d.o.Postgres.Quiesce = e
		case "killall":
			d.o.Postgres.Killall = e
		default:
			d.o.Postgres.PauseAndKill = e
		}
		d.mu.Unlock()
		if !w.Clean {
			return nil
		}
		d.promise(e.Clean, "PostgreSQL was not shut down cleanly")
		d.promise(!e.Recovery, "PostgreSQL needed recovery at its next start")
		d.promise(e.Lost == 0, "%d of %d committed rows are lost", e.Lost, e.Committed)
		r, err := drain.ReadReport(ctx, l)
		if err != nil {
			return err
		}
		err = r.InOrder("bench", "postgres", "net")
		d.promise(err == nil, "client, database and network were not stopped in this order: %v", err)
		return nil
	})
}

// fence drains under a kubelet that makes anew at once what ends.
func (d *demo) fence(ctx context.Context) error {
	return on(ctx, lab.Options{Name: "demo-fence"}, func(l *lab.Lab, k *drain.Kubelet) error {
		f, err := drain.MeasureFence(ctx, l, k, d.keep)
		if err != nil {
			return err
		}
		d.say("fence: %d creations refused, %d containers created while draining, %d of %d pods back after resume",
			f.Refused, f.Created, f.Recreated, drain.FencedPods)
		d.o.Fence = f
		d.promise(f.Refused >= drain.Refusals, "the fence refused %d creations only", f.Refused)
		d.promise(f.Created == 0, "%d containers were created behind the fence", f.Created)
		d.promise(f.Recreated == drain.FencedPods, "%d of %d pods came back after resume", f.Recreated, drain.FencedPods)
		return nil
	})
}

// order drains 100 pods; of several rounds the best one counts for the time, all of them for the promises. It is good
// if it took no longer than it should.
func (d *demo) order(ctx context.Context, round int) (good bool, err error) {
	err = on(ctx, lab.Options{Name: "demo-order"}, func(l *lab.Lab, k *drain.Kubelet) error {
		d.say("order: starting 100 pods")
		pods, err := drain.StartHundred(ctx, l, k)
		if err != nil {
			return err
		}
		d.say("order: 100 pods run; draining")
		kept := map[string][]byte{}
		o, problems, err := drain.MeasureOrder(ctx, l, pods, func(file string, data []byte) error { kept[file] = data; return nil })
		if err != nil {
			return err
		}
		d.say("order: drained in %.1f s, the floor is %.1f s; %d inversions, %d early kills, at most %d signal(s) each, %d hard kills",
			o.Makespan, o.Floor, o.Inversions, o.Early, o.MaxSignals, o.HardKills)
		for _, p := range problems {
			d.promise(false, "%s", p)
		}
		d.promise(o.Pods == len(pods) && o.Tiers == drain.Tiers, "%d pods in %d tiers were drained", o.Pods, o.Tiers)
		d.promise(o.HardKills == drain.Deaf, "%d containers were killed, not the %d that ignore their signal", o.HardKills, drain.Deaf)
		good = o.Over() <= 0
		if round > 1 && o.Over() > d.o.Order.Over() && len(problems) == 0 {
			return nil
		}
		d.o.Order = o
		return errors.Join(d.keepAll(kept), d.picture(ctx, l))
	})
	return good || len(d.broken) > 0, err
}

func (d *demo) keepAll(kept map[string][]byte) (err error) {
	for file, data := range kept {
		err = errors.Join(err, d.keep(file, data))
	}
	return err
}

// picture keeps the report of the drain and its timeline.
func (d *demo) picture(ctx context.Context, l *lab.Lab) error {
	report, svg, err := drain.Picture(ctx, l)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(d.out, "drain-report.json"), report, 0o644),
		os.WriteFile(filepath.Join(d.out, "drain.svg"), svg, 0o644))
}
