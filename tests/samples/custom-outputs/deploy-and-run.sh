set -euo pipefail

ENDPOINT_NAME="heart-classifier-custom"

echo "Registering the model"
MODEL_NAME="heart-classifier-tables"
az ml model create --name $MODEL_NAME --type "custom_model" --path "model"
MODEL_VERSION=$(az ml model show -n $MODEL_NAME --label latest --query version -o tsv)

echo "Creating the endpoint"
az ml batch-endpoint create --name $ENDPOINT_NAME -f endpoint.yml

echo "Creating the deployment"
DEPLOYMENT_NAME="classifier-custom"
az ml batch-deployment create --file deployment.yml --endpoint-name $ENDPOINT_NAME --set-default --set model="azureml:$MODEL_NAME:$MODEL_VERSION"
az ml batch-deployment show --name $DEPLOYMENT_NAME --endpoint-name $ENDPOINT_NAME

echo "Invoking the endpoint"
JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --deployment-name $DEPLOYMENT_NAME --input data --query name -o tsv)

echo "Showing the job, and waiting for it"
az ml job show -n $JOB_NAME --query "{Status:status, Experiment:properties.experimentName}" -o json
az ml job stream -n $JOB_NAME
STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
[[ $STATUS == "Completed" ]] || { echo "The job: $STATUS"; exit 1; }

echo "Downloading what the script wrote"
az ml job download --name $JOB_NAME --output-name score --download-path ./fetched

echo "Deleting the endpoint"
az ml batch-endpoint delete --name $ENDPOINT_NAME --yes
