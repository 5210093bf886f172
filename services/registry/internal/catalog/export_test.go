package catalog

// SetMaxBytes makes a catalog full sooner. Call it before anything is registered.
func (c *Catalog) SetMaxBytes(n int) { c.maxBytes = n }
