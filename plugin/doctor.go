package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/urfave/cli/v3"

	"quiesce/plugin/internal/doctor"
)

// errWarned says that doctor found warnings and no problem.
var errWarned = errors.New("doctor: there are warnings")

// examination is how long doctor may take: what does not answer meanwhile is a finding.
const examination = 30 * time.Second

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "say what keeps quiesce on this node from doing what it promises, and what to do about it",
		Description: "It needs neither the daemon nor containerd, and changes nothing. Exit codes: 0 healthy (notes are no fault), " +
			"3 warnings, 1 problems, 2 wrong usage.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: table or json"}},
		Action: func(ctx context.Context, c *cli.Command) error {
			format := c.String("output")
			if format != "table" && format != "json" {
				return refuse("doctor: --output %q must be table or json", format)
			}
			ctx, cancel := context.WithTimeout(ctx, examination)
			defer cancel()
			f, err := gather(ctx, c.String("config"))
			if err != nil {
				return err
			}
			all := doctor.Examine(f)
			if format == "json" {
				e := json.NewEncoder(c.Root().Writer)
				e.SetIndent("", "  ")
				err = e.Encode(all)
			} else {
				err = doctor.Print(c.Root().Writer, all)
			}
			return errors.Join(err, verdict(all))
		},
	}
}

func verdict(all []doctor.Finding) error {
	switch doctor.Worst(all) {
	case doctor.OK, doctor.Note, doctor.Unknown:
		return nil
	case doctor.Warning:
		return errWarned
	case doctor.Problem:
		return errors.New("doctor: there are problems")
	}
	return nil
}
