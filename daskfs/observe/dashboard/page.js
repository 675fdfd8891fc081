// Shows the parts of the page "daskfs": texts as HTML, and columns of data sources, each as JSON, or "" if there is none.
// All of them at once, so that Bokeh draws a plot once and not for every message about its data.

const place_within = (root, name) => {  // Bokeh's widgets are in shadow roots, one inside another
  for (const element of root.querySelectorAll("*")) {
    if (element.classList.contains(name)) return element
    const found = element.shadowRoot && place_within(element.shadowRoot, name)
    if (found) return found
  }
  return null
}

// The properties of an axis with room "above" its values (from zero on; "stacked": of their sums), "around" them or for "bars".
// Bokeh's own axes complain, and leave traces, while there is nothing to show.
const span = (part, names, room) => {
  const columns = names.map((name) => part[name])
  if (room === "factors") return {factors: columns[0].length ? columns[0] : [" "]}
  const sums = () => columns[0].map((_, at) => columns.reduce((sum, column) => sum + column[at], 0))
  const known = (room === "stacked" ? sums() : columns.flat()).filter(Number.isFinite)
  if (known.length === 0) return {start: 0, end: 1}
  const [low, high] = [Math.min(...known), Math.max(...known)]
  if (room === "above" || room === "stacked") return {start: 0, end: 1.1 * high || 1}
  const beside = room === "bars" || low === high ? 0.6 : (high - low) / 20
  return {start: low - beside, end: high + beside}
}

models.forEach((model, at) => {
  const json = message.data.json[at]
  if (json === "" || model.daskfs_shown === json) return
  const part = JSON.parse(json, (_, value) => value === null ? NaN : value)
  if (typeof part === "string") {
    const place = place_within(document, `daskfs-${model.name}`)
    if (place === null) return
    place.innerHTML = part
  } else {
    for (const {tags: [source, x, y], x_range, y_range} of plots) {
      if (source !== model.name) continue
      x_range.setv(span(part, ...x))
      y_range.setv(span(part, ...y))
    }
    model.data = part
  }
  model.daskfs_shown = json
})
