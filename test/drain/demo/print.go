package main

import (
	"fmt"

	"quiesce/test/drain"
)

// print is the end of the story.
func (d *demo) print() {
	p, o, f := d.o.Postgres, d.o.Order, d.o.Fence
	fmt.Printf("\nWhat happened\n")
	fmt.Printf("  A node's services were stopped while a client wrote to PostgreSQL, which runs in a pod.\n")
	fmt.Printf("    with quiesce (systemctl stop)              %s\n", ending(p.Quiesce))
	fmt.Printf("    k3s-killall (SIGKILL to the shims' trees)  %s\n", ending(p.Killall))
	fmt.Printf("    microk8s stop (pause, then SIGKILL)        %s\n", ending(p.PauseAndKill))
	fmt.Printf("  A kubelet that made anew at once what was drained:\n")
	fmt.Printf("    it was refused %d times, %d containers were created before resume, %d of %d pods ran again after it\n",
		f.Refused, f.Created, f.Recreated, drain.FencedPods)
	fmt.Printf("  %d pods in %d tiers, with 1 to 40 s of grace, %d of them deaf to their stop signal:\n", o.Pods, o.Tiers, drain.Deaf)
	fmt.Printf("    tiers that began before the last one had ended: %d\n", o.Inversions)
	fmt.Printf("    containers killed before their grace was over:  %d\n", o.Early)
	fmt.Printf("    stop signals that a container got, at most:     %d\n", o.MaxSignals)
	fmt.Printf("    containers that had to be killed:               %d\n", o.HardKills)
	fmt.Printf("    the drain took %.1f s; the slowest pods of the tiers alone take %.1f s\n", o.Makespan, o.Floor)
	fmt.Printf("\n  The figures are in out/drain.json, the report in out/drain-report.json, its picture in out/drain.svg,\n")
	fmt.Printf("  what they come from in out/evidence/drain-*.\n")
}

func ending(e drain.Ending) string {
	shutdown, next := "no clean shutdown", "no recovery"
	if e.Clean {
		shutdown = "a clean shutdown"
	}
	if e.Recovery {
		next = "crash recovery"
	}
	return fmt.Sprintf("%s, %s at the next start, %d of %d committed rows lost", shutdown, next, e.Lost, e.Committed)
}
