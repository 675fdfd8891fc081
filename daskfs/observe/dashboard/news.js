// What is new on the page "daskfs": for every model what it shall be, as JSON, and nothing for those nobody spoke of.
// All of it in one go, so that Bokeh draws a plot once and not for every message about its axes and its data.

const place_within = (root, name) => {  // Bokeh's widgets are in shadow roots, one inside another
  for (const element of root.querySelectorAll("*")) {
    if (element.classList.contains(name)) return element
    const found = element.shadowRoot && place_within(element.shadowRoot, name)
    if (found) return found
  }
  return null
}

models.forEach((model, at) => {
  const json = news.data.json[at]
  if (json === "" || model.daskfs_shown === json) return
  const next = JSON.parse(json, (_, value) => value === null ? NaN : value)
  if ("html" in next) {
    const place = place_within(document, next.place)
    if (place === null) return
    place.innerHTML = next.html
  } else {
    model.setv(next)
  }
  model.daskfs_shown = json
})
