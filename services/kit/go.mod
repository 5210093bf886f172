module github.com/sluiceio/sluice/services/kit

go 1.26.0
