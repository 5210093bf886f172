module github.com/sluiceio/sluice/services/coordinator

go 1.26.0
