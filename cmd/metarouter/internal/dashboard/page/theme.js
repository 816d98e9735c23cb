// Before the first paint, so that nothing flashes.
try {
  const theme = localStorage.getItem("metarouter-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the system's theme */ }
