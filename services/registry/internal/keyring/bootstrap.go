package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/registry/internal/key"
)

// bootstrapName is the name of the first key.
const bootstrapName = "bootstrap"

// Bootstrap makes an administrator's key if there is no key, revoked ones
// included, and leaves its secret in a file that only this user can read.
//
// The file comes first: a crash in between leaves a file without a key, whose
// secret the next start makes the key of; the other way round it would leave a
// key that nobody has. Of several processes, those that another one was faster
// than take their file away again.
func (r *Ring) Bootstrap(ctx context.Context, file string, now time.Time) error {
	select {
	case <-r.known:
	case <-ctx.Done():
		return ctx.Err()
	}
	if len(r.List()) > 0 {
		return nil
	}
	secret, err := bootstrapSecret(file)
	if err != nil {
		return fmt.Errorf("bootstrap key: %w", err)
	}
	row := key.New(key.Spec{
		Name:   bootstrapName,
		Grants: []*persistv1.KeyGrant{{Action: persistv1.KeyAction_KEY_ACTION_ADMIN, TopicPrefix: key.Everything}},
	}, secret, now)
	made, err := r.CreateFirst(ctx, row)
	if err != nil {
		return fmt.Errorf("bootstrap key: %w", err)
	}
	if made {
		r.cfg.Logger.WarnContext(ctx, "made the first key, an administrator's; use it to make others, then delete the file",
			"file", file, "key_id", row.GetKeyId())
		return nil
	}
	// An earlier attempt of ours may have come through although its answer was
	// lost: then the key is this one.
	if err := r.Sync(ctx); err != nil {
		return fmt.Errorf("bootstrap key: %w", err)
	}
	r.mu.RLock()
	ours := r.mu.byHash[key.HashOf(secret)] != nil
	r.mu.RUnlock()
	if ours {
		return nil
	}
	return os.Remove(file)
}

// bootstrapSecret returns the secret in the file, or makes both.
func bootstrapSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return "", fmt.Errorf("%s is open to others (%v): move it away", file, info.Mode().Perm())
		}
		secret := strings.TrimSpace(string(text))
		if !key.IsSecret(secret) {
			return "", fmt.Errorf("%s is there and has no secret: move it away", file)
		}
		return secret, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	secret := key.NewSecret()
	return secret, writeSecret(file, secret)
}

// writeSecret makes a file that was never readable for others and that is there
// whole and durably, or not at all. The folder belongs to this process, so nobody
// else makes the file meanwhile.
func writeSecret(file, secret string) error {
	temporary := file + ".new"
	// Of a start that ended half way.
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, file); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
