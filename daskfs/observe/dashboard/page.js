// Sets the properties of the models of the page "daskfs", which come as JSON, or as "" for models without any yet.
// All of them at once, so that Bokeh draws a plot once and not for every message about its axes and its data.

const place_within = (root, name) => {  // Bokeh's widgets are in shadow roots, one inside another
  for (const element of root.querySelectorAll("*")) {
    if (element.classList.contains(name)) return element
    const found = element.shadowRoot && place_within(element.shadowRoot, name)
    if (found) return found
  }
  return null
}

models.forEach((model, at) => {
  const json = updates.data.json[at]
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
