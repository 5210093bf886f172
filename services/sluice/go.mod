module github.com/sluiceio/sluice/services/sluice

go 1.26.0
