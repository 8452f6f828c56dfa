// Bokeh draws on a canvas, which style sheets do not reach. `sync: false` keeps the colours of this
// screen from being sent to the server. When the server learns what kind of query it shows, the
// page has other cards, so it is loaded again.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const roles = {
    axis_label_text_color: "--pale", major_label_text_color: "--pale", axis_line_color: "--line",
    major_tick_line_color: "--line", grid_line_color: "--line", outline_line_color: "--line",
    title_text_color: "--ink"
  };
  function dress(doc) {
    const style = getComputedStyle(document.documentElement);
    for (const model of doc.all_models) {
      const values = {};
      for (const [name, variable] of Object.entries(roles)) {
        if (name in model.properties && model[name] != null) {
          values[name] = style.getPropertyValue(variable).trim();
        }
      }
      if (Object.keys(values).length) model.setv(values, { sync: false });
    }
    document.documentElement.dataset.dressed = dark.matches ? "dark" : "light";
  }
  function begin() {
    const doc = window.Bokeh && Bokeh.documents.find(function (one) { return one.roots().length; });
    if (!doc) { window.setTimeout(begin, 40); return; }
    dress(doc);
    dark.addEventListener("change", function () { dress(doc); });
    const status = doc.get_model_by_name("status");
    if (status) status.properties.tags.change.connect(function () { window.location.reload(); });
  }
  begin();
})();
