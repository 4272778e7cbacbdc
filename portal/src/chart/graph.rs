//! Steps of a pipeline as boxes in layers: each stands behind all that it needs, and lines lead from those to it.

use askama::Template;

/// Steps that are drawn; more of them are a table alone.
const MOST: usize = 60;
/// Size of a box, and what is between boxes of a layer, and between layers.
const BOX: (u32, u32) = (220, 56);
const GAPS: (u32, u32) = (16, 64);
/// Letters of a name in a box.
const LETTERS: usize = 26;

/// A step, as the picture knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphStep {
    /// Its name.
    pub name: String,
    /// Where it leads; empty for a step that did not begin.
    pub link: String,
    /// The family that its state looks like, its shape, and the word for it.
    pub state: (&'static str, &'static str, &'static str),
    /// The steps that it needs, by their names.
    pub needs: Vec<String>,
}

/// A box.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    x: u32,
    y: u32,
    name: String,
    step: GraphStep,
}

/// The picture.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(path = "chart/graph.html")]
pub struct Graph {
    width: u32,
    height: u32,
    nodes: Vec<Node>,
    edges: Vec<String>,
    sentence: String,
}

impl Graph {
    /// The picture of these steps, and of what each needs; nothing where there are none, or too many.
    pub fn new(steps: &[GraphStep]) -> Option<Self> {
        if steps.is_empty() || steps.len() > MOST {
            return None;
        }
        let layers = layers(steps);
        let mut rows = vec![0; layers.iter().max().map_or(0, |most| most + 1)];
        let mut nodes: Vec<Node> = Vec::new();
        for (step, layer) in steps.iter().zip(&layers) {
            let row = rows[*layer];
            rows[*layer] += 1;
            let name = match step.name.char_indices().nth(LETTERS) {
                Some((at, _)) => format!("{}\u{2026}", &step.name[..at]),
                None => step.name.clone(),
            };
            let x = *layer as u32 * (BOX.0 + GAPS.1) + 2;
            nodes.push(Node { x, y: row * (BOX.1 + GAPS.0) + 2, name, step: step.clone() });
        }
        let (mut edges, mut dips) = (Vec::new(), false);
        for node in &nodes {
            for need in &node.step.needs {
                let Some(from) = nodes.iter().find(|from| from.step.name == *need) else { continue };
                let (x, y) = (from.x + BOX.0, from.y + BOX.1 / 2);
                let (to_x, to_y) = (node.x, node.y + BOX.1 / 2);
                let middle = u32::midpoint(x, to_x);
                // A line over a layer bends down, for a box may stand in its way.
                let bend = if to_x > x + GAPS.1 { BOX.1 + GAPS.0 } else { 0 };
                dips |= bend > 0;
                let (first, last) = if bend > 0 { (x + GAPS.1, to_x - GAPS.1) } else { (middle, middle) };
                let (low, to_low) = (y + bend, to_y + bend);
                edges.push(format!("M{x} {y}C{first} {low} {last} {to_low} {to_x} {to_y}"));
            }
        }
        let most = rows.iter().copied().max().unwrap_or(1);
        let sentence =
            format!("{} steps in {} layers, {} lines between them", nodes.len(), rows.len(), edges.len());
        Some(Self {
            width: rows.len() as u32 * (BOX.0 + GAPS.1) - GAPS.1 + 4,
            height: most * (BOX.1 + GAPS.0) - GAPS.0 + 4 + if dips { BOX.1 / 2 } else { 0 },
            nodes,
            edges,
            sentence,
        })
    }
}

/// The layer of each step: behind those of all that it needs. What needs itself, in a circle, stands where the circle is cut.
fn layers(steps: &[GraphStep]) -> Vec<usize> {
    let mut layers = vec![0; steps.len()];
    // A layer becomes final with each round, so there are no more rounds than steps.
    for _ in 0..steps.len() {
        let mut is_changed = false;
        for (at, step) in steps.iter().enumerate() {
            let behind = step.needs.iter().filter_map(|need| {
                let at = steps.iter().position(|other| other.name == *need)?;
                Some(layers[at] + 1)
            });
            let layer = behind.max().unwrap_or(0).min(steps.len() - 1);
            is_changed |= layer != layers[at];
            layers[at] = layer;
        }
        if !is_changed {
            break;
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(needs: &[(&str, &[&str])]) -> Vec<GraphStep> {
        let step = |(name, needs): &(&str, &[&str])| GraphStep {
            name: (*name).to_owned(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            ..GraphStep::default()
        };
        needs.iter().map(step).collect()
    }

    #[test]
    fn a_step_stands_behind_all_that_it_needs() {
        let diamond = steps(&[("d", &["b", "c"]), ("b", &["a"]), ("c", &["a", "b"]), ("a", &[])]);
        assert_eq!(layers(&diamond), [3, 1, 2, 0]);
        let graph = Graph::new(&diamond).unwrap();
        assert_eq!((graph.nodes.len(), graph.edges.len()), (4, 5));
        assert_eq!(layers(&steps(&[("a", &["nobody"]), ("b", &[])])), [0, 0]);
        // It ends, whatever it is given.
        assert_eq!(layers(&steps(&[("a", &["b"]), ("b", &["a"])])).len(), 2);
        assert!(Graph::new(&[]).is_none() && Graph::new(&vec![GraphStep::default(); MOST + 1]).is_none());
    }
}
