package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

func provisionCommand(f *cli.SessionFlags) *cobra.Command {
	var p bus.Provision
	var keep cli.KeepFlags
	var grants []string
	var sync string
	cmd := &cobra.Command{
		Use: "provision", Short: "Make the streams and buckets", Args: cobra.NoArgs,
		Long: `Make the streams and buckets that workers need, where they are missing. Workers
make them too, if they have the permissions. A worker with the role worker has
not: run this command with the role provisioner first.

It corrects settings of existing streams that workers depend on, and keeps all
others. --keep, --keep-bytes and --sync change existing streams too: so an
operator changes them while workers run. --keep is refused if a running tree may
take longer.

--sync says how the server syncs its writes to disk. With always, workers store
writes of the same moment together, which the server syncs once. That doubles
the rate of a flood of submissions. A worker learns of a change when it starts.

--grant stores grants of workers from files, which axe auth init makes.`,
		Example: `  axe provision --context axe-provisioner --grant auth/worker.grant
  axe provision --creds auth/provisioner.creds --replicas 3 --sync always
  axe provision --creds auth/provisioner.creds --keep 30d --keep-bytes 20GiB`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.Replicas < 1 || p.Replicas > 5 {
				return cli.Usage("--replicas must be 1 to 5, got %d", p.Replicas)
			}
			if p.Partitions < 0 || p.Partitions > bus.MostPartitions {
				return cli.Usage("--partitions must be 1 to %d, got %d", bus.MostPartitions, p.Partitions)
			}
			switch sync {
			case "":
			case "always":
				p.Sync = bus.SyncAlways
			case "interval":
				p.Sync = bus.SyncInterval
			default:
				return cli.Usage("--sync must be always or interval, got %q", sync)
			}
			p.MaxAge, p.MaxBytes = time.Duration(keep.Time.Seconds), int64(keep.Bytes.Size)
			log, err := f.Logger()
			if err != nil {
				return err
			}
			return f.UseConn(cmd.Context(), log, func(conn *bus.Conn) error {
				if err := cli.Provision(cmd.Context(), conn, p, log); err != nil {
					return err
				}
				if err := bus.MakeBuckets(cmd.Context(), conn); err != nil {
					return err
				}
				for _, file := range grants {
					if err := storeGrant(cmd.Context(), conn, file); err != nil {
						return err
					}
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d partitions, %d replicas, keep %s\n",
					conn.Space().Partitions(), conn.Replicas(), conn.MaxAge().Round(time.Second))
				return err
			})
		},
	}
	cmd.Flags().IntVar(&p.Replicas, "replicas", 1, "replicas of streams that do not exist yet")
	cmd.Flags().IntVar(&p.Partitions, "partitions", 0, "number of streams over which trees are spread (default 1)")
	cmd.Flags().StringSliceVar(&grants, "grant", nil, "files with grants of workers (axe auth grant)")
	cmd.Flags().StringVar(&sync, "sync", "",
		"how the server syncs: always, for sync_interval: always, or interval (default: as before)")
	keep.Register(cmd)
	return cmd
}

// storeGrant stores the grant in a file.
func storeGrant(ctx context.Context, conn *bus.Conn, file string) error {
	token, err := os.ReadFile(file)
	if err == nil {
		_, err = bus.StoreGrant(ctx, conn, string(token))
	}
	if err != nil {
		return cli.Fail(cli.CodeConfig, fmt.Errorf("--grant %s: %w", file, err))
	}
	return nil
}
