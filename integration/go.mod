module github.com/sluiceio/sluice/integration

go 1.26.0
