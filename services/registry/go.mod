module github.com/sluiceio/sluice/services/registry

go 1.26.0
