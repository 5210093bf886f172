package chaos

import (
	"os"
	"testing"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }
