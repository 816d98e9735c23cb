package adapter

var (
	_ ProviderAdapter = (*Router)(nil)
	_ ProviderAdapter = (*Functions)(nil)
	_ ProviderAdapter = (*Chat)(nil)
	_ ProviderAdapter = (*Mux)(nil)
)
