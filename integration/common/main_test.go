package common

import (
	"os"
	"testing"
	"time"

	"github.com/sluiceio/sluice/integration/cluster"
)

// patience is how long a test waits for what should come soon.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
